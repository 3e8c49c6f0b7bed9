// Tests the parsing of numbers in flags.

#include <gtest/gtest.h>

#include "run_gpt.h"

namespace {

using Words = std::vector<std::string>;

const std::string kModel = GPT_SOURCE_DIR "/tests/golden/data/gpt2";

void expect_usage_error(const Words& words, const Facts& facts, const Words& environment = {}) {
  const GptRun run = run_gpt(words, environment);
  EXPECT_EQ(run.status, 2) << words.back() << ": " << run.err;
  EXPECT_TRUE(names(run.err, facts)) << words.back();
}

TEST(Numbers, TooLargeOnesAreRefused) {
  const std::string flags[][2] = {
      {"generate", "--seed"},        {"generate", "--max-tokens"}, {"generate", "--top-k"},
      {"generate", "--temperature"}, {"generate", "--threads"},    {"chat", "--seed"},
      {"eval", "--stride"},          {"sweep", "--minutes"},       {"sweep", "--seeds"},
      {"plan", "--memory"},          {"bench", "--threads"}};
  for (const auto& [command, flag] : flags) {
    const std::string number = flag == "--temperature" || flag == "--minutes" || flag == "--memory"
                                   ? "1e400"
                                   : "18446744073709551616";
    expect_usage_error({command, flag, number}, {flag, number});
  }
  expect_usage_error({"data", "tales", "--bytes", "10", "--seed", "9223372036854775808"},
                     {"--seed", "9223372036854775807", "9223372036854775808"});
  expect_usage_error({"data", "tales", "--bytes", "99999999999999999999"},
                     {"--bytes", "99999999999999999999"});
  expect_usage_error({"data", "tales", "--bytes", "10"}, {"GPT_SEED", "9223372036854775808"},
                     {"GPT_SEED=9223372036854775808"});
}

TEST(Numbers, OnesThatMeanSomethingElseAreRefused) {
  expect_usage_error({"data", "tales", "--bytes", "010"}, {"--bytes", "010"});
  expect_usage_error({"generate", "m", "--temperature", "nan"}, {"--temperature", "nan"});
  expect_usage_error({"generate", "m", "--temperature", "inf"}, {"--temperature", "inf"});
}

TEST(Numbers, ConfigKeysAreCheckedToo) {
  struct Case {
    std::string flag, value, found;
  };
  for (const Case& c : {Case{"--seed", "9223372036854775808", "9223372036854775808"},
                        {"--seed", "18446744073709551616", "1.8446744073709552e+19"},
                        {"--seed", "9007199254740993.0", "9.007199254740992e+15"},
                        {"--seed", "1.5", "1.5"},
                        {"--seed", "-1", "-1"},
                        {"--steps", "99999999999999999999", "1e+20"},
                        {"--steps", "010", "010"},
                        {"--lr", "1e400", "1e400"},
                        {"--batch-size", "1e30", "1e+30"}})
    expect_usage_error({"train", "--print-config", c.flag, c.value}, {c.flag, c.found});
}

// Common notations of a number are accepted.
TEST(Numbers, MayLackAZero) {
  for (const char* value : {".3", "3e-1", "0.3", "+.3", "+3e-1"}) {
    const GptRun run = run_gpt({"train", "--print-config", "--data", "tales", "--lr", value});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.out, {"\"lr\": 0.3"})) << value;
    EXPECT_EQ(run_gpt({"generate", kModel, "--ids", "1", "--max-tokens", "1", "--temperature", value}).status,
              0);
  }
}

TEST(Numbers, ListsHaveNoEmptyEntries) {
  for (const char* ids : {"1,,2", "1,2,", ",1", "1, ,2", ","}) {
    expect_usage_error({"generate", kModel, "--ids", ids}, {"--ids"});
    expect_usage_error({"trace", kModel, "--ids", ids}, {"--ids"});
    EXPECT_NE(run_gpt({"tokenizer", "decode", "--tokenizer", "byte", "--ids", ids}).status, 0) << ids;
  }
  for (const char* ids : {"1,2", "1 2", " 1, 2 ", "1 ,2"})
    EXPECT_EQ(run_gpt({"generate", kModel, "--max-tokens", "1", "--ids", ids}).status, 0) << ids;
  expect_usage_error({"generate", kModel, "--ids", "1", "--logit-bias", "1=2,,3=4"},
                     {"--logit-bias", "ID=VALUE", "\"\""});
}

TEST(Numbers, NegativeOnesDoNotMeanUnset) {
  expect_usage_error({"generate", kModel, "--ids", "1", "--json", "--logprobs", "-1"}, {"--logprobs", -1});
  expect_usage_error({"trace", kModel, "--ids", "1", "--head", "-1"}, {"--head", -1});
  expect_usage_error({"trace", kModel, "--ids", "1", "--query", "-1"}, {"--query", -1});
  expect_usage_error({"trace", kModel, "--ids", "1", "--block", "-1"}, {"--block", -1});
  expect_usage_error({"trace", kModel, "--ids", "1", "--block", "1,0"}, {"--block", "\"1,0\""});
}

TEST(Numbers, TheLargestAndNegativeOnesStay) {
  EXPECT_EQ(run_gpt({"data", "tales", "--bytes", "10", "--seed", "9223372036854775807"}).status, 0);
  expect_usage_error({"data", "tales", "--bytes", "10", "--seed", "-1"}, {"--seed", 0, -1});
}

}  // namespace
