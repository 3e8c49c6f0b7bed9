// What every command has in common: exit statuses, one-line errors, suggestions, help.

#include <gtest/gtest.h>

#include <algorithm>

#include "run_gpt.h"

namespace {

void expect_one_line_error(const GptRun& run, int status, const std::string& part) {
  EXPECT_EQ(run.status, status) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_EQ(run.err.rfind("gpt: ", 0), 0u) << run.err;
  EXPECT_NE(run.err.find(part), std::string::npos) << run.err;
}

TEST(Usage, VersionAndHelp) {
  const GptRun version = run_gpt({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.out.rfind("gpt.cpp ", 0), 0u);
  EXPECT_EQ(version.err, "");
  for (const char* command : {"train", "generate", "chat", "eval", "verify", "info", "bench", "convert",
                              "data", "trace", "sweep", "classify", "serve"}) {
    const GptRun help = run_gpt({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_NE(help.out.find("Examples:"), std::string::npos) << command;
    EXPECT_NE(help.out.find(std::string("gpt ") + command), std::string::npos) << command;
    EXPECT_EQ(help.err, "") << command;
  }
}

TEST(Usage, NothingToDoShowsHelpOnStderr) {
  const GptRun run = run_gpt({});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_NE(run.err.find("train"), std::string::npos);
}

TEST(Usage, SuggestsWhatWasMeant) {
  expect_one_line_error(run_gpt({"trian"}), 2, "did you mean train?");
  expect_one_line_error(run_gpt({"generate", "--promt", "x"}), 2, "did you mean --prompt?");
  expect_one_line_error(run_gpt({"generate", "--temprature=1", "model"}), 2, "did you mean --temperature?");
  expect_one_line_error(run_gpt({"train", "--data", "tales", "--n-layers2", "3"}), 2,
                        "did you mean --n-layer?");
  expect_one_line_error(run_gpt({"data", "tails"}), 2, "did you mean tales?");
  expect_one_line_error(run_gpt({"data", "tales", "--byte", "3"}), 2, "did you mean --bytes?");
  expect_one_line_error(run_gpt({"info", "mini-gtp"}), 2, "did you mean mini-gpt?");
  expect_one_line_error(run_gpt({"info", "gpt2", "--act", "gelo"}), 2, "did you mean gelu?");
  expect_one_line_error(run_gpt({"verify", "x", "--dtype", "fp6"}), 2, "did you mean fp64?");
}

TEST(Usage, WrongValuesNameTheFlag) {
  expect_one_line_error(run_gpt({"generate", "x", "--max-tokens", "many"}), 2, "--max-tokens");
  expect_one_line_error(run_gpt({"eval", "x", "--data", "y", "--threads", "-1"}), 2, "--threads");
  expect_one_line_error(run_gpt({"eval", "x", "--data", "y", "--device", "cuda"}), 2, "CPU only");
  expect_one_line_error(run_gpt({"info", "gpt2", "--qkv-bias", "maybe"}), 2, "--qkv-bias");
  expect_one_line_error(run_gpt({"info", "gpt2", "--n-head", "7"}), 1, "n_head");
  expect_one_line_error(run_gpt({"info", "gpt2", "extra"}), 2, "extra");
  expect_one_line_error(run_gpt({"train", "tales", "--steps", "5", "--steps", "9"}), 2,
                        "--steps: expected one value, found 2: \"5\", \"9\"");
  expect_one_line_error(run_gpt({"train", "--data", "tales", "--qkv-bias", "--qkv-bias=false"}), 2,
                        "--qkv-bias");
  expect_one_line_error(run_gpt({"data", "tales", "--bytes", "-4"}), 2, "bytes");
}

TEST(Usage, MissingArguments) {
  expect_one_line_error(run_gpt({"generate"}), 2, "MODEL");
  expect_one_line_error(run_gpt({"eval", "x"}), 1, "cannot find the model x");
  expect_one_line_error(run_gpt({"train"}), 2, "--data");
  expect_one_line_error(run_gpt({"train", "--resume"}), 2, "--out");
  expect_one_line_error(run_gpt({"data", "tales"}), 2, "--bytes");
}

TEST(Usage, MissingFilesAreFailuresWithNameAndNoLineBreaks) {
  expect_one_line_error(run_gpt({"generate", "/nonexistent/model", "--ids", "1"}), 1, "/nonexistent/model");
  expect_one_line_error(run_gpt({"generate", "a\nb\x1b[2J", "--ids", "1"}), 1, "a b");
  expect_one_line_error(run_gpt({"verify", "/nonexistent/model"}), 1, "/nonexistent/model");
}

TEST(Usage, EnvironmentGivesDefaults) {
  EXPECT_EQ(run_gpt({"data", "tales"}, {"GPT_BYTES=10"}).out.size(), 10u);
  EXPECT_EQ(run_gpt({"data", "tales", "--bytes", "7"}, {"GPT_BYTES=10"}).out.size(), 7u);
  expect_one_line_error(run_gpt({"data", "tales"}, {"GPT_BYTES=ten"}), 2, "GPT_BYTES");
}

TEST(Usage, UnwritableOutput) {
  const GptRun run = run_gpt({"data", "tales", "--bytes", "100", "--out", "/nonexistent/dir/file"});
  expect_one_line_error(run, 1, "/nonexistent/dir");
}

}  // namespace
