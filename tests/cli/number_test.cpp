// Numbers of flags mean what is written.

#include <gtest/gtest.h>

#include "run_gpt.h"

namespace {

using Words = std::vector<std::string>;

const std::string kModel = GPT_SOURCE_DIR "/tests/golden/data/gpt2";

void expect_usage_error(const Words& words, const std::string& what, const Words& environment = {}) {
  const GptRun run = run_gpt(words, environment);
  EXPECT_EQ(run.status, 2) << words.back() << ": " << run.err;
  EXPECT_NE(run.err.find(what), std::string::npos) << words.back() << ": " << run.err;
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
    expect_usage_error({command, flag, number}, number);
  }
  expect_usage_error({"data", "tales", "--bytes", "10", "--seed", "9223372036854775808"},
                     "9223372036854775807");
  expect_usage_error({"data", "tales", "--bytes", "99999999999999999999"}, "99999999999999999999");
  expect_usage_error({"data", "tales", "--bytes", "10"}, "GPT_SEED", {"GPT_SEED=9223372036854775808"});
}

TEST(Numbers, OnesThatMeanSomethingElseAreRefused) {
  expect_usage_error({"data", "tales", "--bytes", "010"}, "without leading zeros");
  expect_usage_error({"generate", "m", "--temperature", "nan"}, "finite");
  expect_usage_error({"generate", "m", "--temperature", "inf"}, "finite");
}

TEST(Numbers, ConfigKeysAreCheckedToo) {
  for (const auto& [flag, value] : {std::pair{"--seed", "9223372036854775808"},
                                    {"--seed", "18446744073709551616"},
                                    {"--seed", "9007199254740993.0"},
                                    {"--seed", "1.5"},
                                    {"--seed", "-1"},
                                    {"--steps", "99999999999999999999"},
                                    {"--steps", "010"},
                                    {"--lr", "1e400"},
                                    {"--batch-size", "1e30"}}) {
    expect_usage_error({"train", "--print-config", flag, value}, "config key");
  }
}

// Numbers as people write them.
TEST(Numbers, MayLackAZero) {
  for (const char* value : {".3", "3e-1", "0.3", "+.3", "+3e-1"}) {
    const GptRun run = run_gpt({"train", "--print-config", "--data", "tales", "--lr", value});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.out.find("\"lr\": 0.3,"), std::string::npos) << value << run.out;
    EXPECT_EQ(run_gpt({"generate", kModel, "--ids", "1", "--max-tokens", "1", "--temperature", value}).status,
              0);
  }
}

TEST(Numbers, ListsHaveNoEmptyEntries) {
  for (const char* ids : {"1,,2", "1,2,", ",1", "1, ,2", ","}) {
    expect_usage_error({"generate", kModel, "--ids", ids}, "--ids");
    expect_usage_error({"trace", kModel, "--ids", ids}, "--ids");
    EXPECT_NE(run_gpt({"tokenizer", "decode", "--tokenizer", "byte", "--ids", ids}).status, 0) << ids;
  }
  for (const char* ids : {"1,2", "1 2", " 1, 2 ", "1 ,2"})
    EXPECT_EQ(run_gpt({"generate", kModel, "--max-tokens", "1", "--ids", ids}).status, 0) << ids;
  expect_usage_error({"generate", kModel, "--ids", "1", "--logit-bias", "1=2,,3=4"}, "--logit-bias");
}

TEST(Numbers, NegativeOnesDoNotMeanUnset) {
  expect_usage_error({"generate", kModel, "--ids", "1", "--json", "--logprobs", "-1"}, "--logprobs");
  expect_usage_error({"trace", kModel, "--ids", "1", "--head", "-1"}, "--head");
  expect_usage_error({"trace", kModel, "--ids", "1", "--query", "-1"}, "--query");
  expect_usage_error({"trace", kModel, "--ids", "1", "--block", "-1"}, "--block");
  expect_usage_error({"trace", kModel, "--ids", "1", "--block", "1,0"}, "--block");
}

TEST(Numbers, TheLargestAndNegativeOnesStay) {
  EXPECT_EQ(run_gpt({"data", "tales", "--bytes", "10", "--seed", "9223372036854775807"}).status, 0);
  expect_usage_error({"data", "tales", "--bytes", "10", "--seed", "-1"}, "at least 0, found -1");
}

}  // namespace
