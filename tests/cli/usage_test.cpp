// Tests the behavior that all commands share: exit statuses, one-line errors, suggestions and help.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

void expect_one_line_error(const GptRun& run, int status, const Facts& facts) {
  EXPECT_EQ(run.status, status) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  EXPECT_EQ(run.err.rfind("gpt: ", 0), 0u) << run.err;
  EXPECT_TRUE(names(run.err, facts));
}

// Checks the error for an unknown name, which suggests a similar name.
void expect_suggestion(const std::vector<std::string>& arguments, const std::string& found,
                       const std::string& meant) {
  const GptRun run = run_gpt(arguments);
  expect_one_line_error(run, 2, {found});
  EXPECT_TRUE(suggests(run.err, found, meant));
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
    EXPECT_NE(help.out.find(std::string("\n  gpt ") + command), std::string::npos) << "an example";
    EXPECT_EQ(help.err, "") << command;
  }
}

TEST(Usage, NothingToDoShowsHelpOnStderr) {
  const GptRun run = run_gpt({});
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, run_gpt({"--help"}).out);
}

TEST(Usage, SuggestsWhatWasMeant) {
  expect_suggestion({"trian"}, "\"trian\"", "train");
  expect_suggestion({"generate", "--promt", "x"}, "--promt", "--prompt");
  expect_suggestion({"generate", "--temprature=1", "model"}, "--temprature", "--temperature");
  expect_suggestion({"train", "--data", "tales", "--n-layers2", "3"}, "--n-layers2", "--n-layer");
  expect_suggestion({"data", "tails"}, "\"tails\"", "tales");
  expect_suggestion({"data", "tales", "--byte", "3"}, "--byte", "--bytes");
  expect_suggestion({"info", "mini-gtp"}, "\"mini-gtp\"", "mini-gpt");
  expect_suggestion({"info", "gpt2", "--act", "gelo"}, "\"gelo\"", "gelu");
  expect_suggestion({"verify", "x", "--dtype", "fp6"}, "\"fp6\"", "fp64");
}

TEST(Usage, WrongValuesNameTheFlag) {
  expect_one_line_error(run_gpt({"generate", "x", "--max-tokens", "many"}), 2, {"--max-tokens", "\"many\""});
  expect_one_line_error(run_gpt({"eval", "x", "--data", "y", "--threads", "-1"}), 2,
                        {"--threads", 0, 1024, -1});
  expect_one_line_error(run_gpt({"eval", "x", "--data", "y", "--device", "cuda"}), 2,
                        {"--device cuda", "CPU"});
  expect_one_line_error(run_gpt({"info", "gpt2", "--qkv-bias", "maybe"}), 2, {"--qkv-bias", "\"maybe\""});
  expect_one_line_error(run_gpt({"info", "gpt2", "--n-head", "7"}), 2, {"n_embd = 768", "n_head = 7"});
  expect_one_line_error(run_gpt({"info", "gpt2", "extra"}), 2, {"\"extra\"", "gpt info --help"});
  expect_one_line_error(run_gpt({"train", "tales", "--steps", "5", "--steps", "9"}), 2,
                        {"--steps", 2, "\"5\", \"9\""});
  expect_one_line_error(run_gpt({"train", "--data", "tales", "--qkv-bias", "--qkv-bias=false"}), 2,
                        {"--qkv-bias", 2, "\"false\""});
  expect_one_line_error(run_gpt({"data", "tales", "--bytes", "-4"}), 2, {"bytes", 1, -4});
}

TEST(Usage, MissingArguments) {
  expect_one_line_error(run_gpt({"generate"}), 2, {"MODEL", "gpt generate MODEL"});
  expect_one_line_error(run_gpt({"eval", "nosuch"}), 1, {"nosuch"});
  expect_one_line_error(run_gpt({"train"}), 2, {"--data"});
  expect_one_line_error(run_gpt({"train", "--resume"}), 2, {"--resume", "--out DIR"});
  expect_one_line_error(run_gpt({"data", "tales"}), 2, {"--bytes"});
}

TEST(Usage, MissingFilesAreFailuresWithNameAndNoLineBreaks) {
  expect_one_line_error(run_gpt({"generate", "/nonexistent/model", "--ids", "1"}), 1, {"/nonexistent/model"});
  expect_one_line_error(run_gpt({"generate", "a\nb\x1b[2J", "--ids", "1"}), 1, {"a b"});
  expect_one_line_error(run_gpt({"verify", "/nonexistent/model"}), 1, {"/nonexistent/model"});
}

TEST(Usage, EnvironmentGivesDefaults) {
  EXPECT_EQ(run_gpt({"data", "tales"}, {"GPT_BYTES=10"}).out.size(), 10u);
  EXPECT_EQ(run_gpt({"data", "tales", "--bytes", "7"}, {"GPT_BYTES=10"}).out.size(), 7u);
  expect_one_line_error(run_gpt({"data", "tales"}, {"GPT_BYTES=ten"}), 2, {"GPT_BYTES", "\"ten\""});
  expect_one_line_error(run_gpt({"data", "tales", "--bytes", "9"}, {"GPT_TASK=chatt"}), 2,
                        {"GPT_TASK", "\"chatt\""});
  expect_one_line_error(run_gpt({"eval", "x", "--data", "y"}, {"GPT_THREADS=-1"}), 2, {"GPT_THREADS", -1});
}

TEST(Usage, EnvironmentNeverForces) {
  const gpt::test::TempDir dir;
  const std::string file = dir.file("old.txt");
  gpt::test::write_plain_file(file, "old");
  const std::vector<std::string> words = {"data", "tales", "--bytes", "9", "--out", file};
  const GptRun run = run_gpt(words, {"GPT_FORCE=1"});
  EXPECT_NE(run.status, 0);
  EXPECT_EQ(std::filesystem::file_size(file), 3u);
  EXPECT_TRUE(
      names(run_gpt({"data", "tales", "--bytes", "9"}, {"GPT_FORCE=1"}).err, {"GPT_FORCE", "--force"}));
  const GptRun open =
      run_gpt({"serve", GPT_SOURCE_DIR "/tests/golden/data/gpt2", "--host", "0.0.0.0", "--port", "0"},
              {"GPT_INSECURE=1"});
  EXPECT_EQ(open.status, 2) << open.err;
  EXPECT_TRUE(names(open.err, {"--api-key-file"}));
}

TEST(Usage, UnknownVariablesAreNoted) {
  const GptRun run = run_gpt({"data", "tales", "--bytes", "9"}, {"GPT_BYTESS=3"});
  EXPECT_EQ(run.status, 0);
  EXPECT_TRUE(suggests(run.err, "GPT_BYTESS", "GPT_BYTES"));
}

TEST(Usage, UnwritableOutput) {
  const GptRun run = run_gpt({"data", "tales", "--bytes", "100", "--out", "/nonexistent/dir/file"});
  expect_one_line_error(run, 1, {"/nonexistent/dir/file"});
}

}  // namespace
