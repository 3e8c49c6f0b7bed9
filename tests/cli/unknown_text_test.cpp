// Tests the reports about characters that a tokenizer does not have, in all commands that encode text.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using gpt::test::TempDir;
using gpt::test::write_plain_file;
using nlohmann::json;

const std::string kTokenizer = GPT_SOURCE_DIR "/tests/data/gpt1.tokenizer.json";

// Returns the notes about unknown tokens, one per line.
std::vector<std::string> notes_of(const GptRun& run) {
  std::vector<std::string> notes;
  std::istringstream lines(run.err);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("note: ") && line.find("<unk>") != std::string::npos) notes.push_back(line);
  }
  return notes;
}

// Checks that a run reports once how many of its tokens are unknown.
void expect_note(const GptRun& run, const Facts& facts) {
  EXPECT_EQ(run.status, 0) << run.err;
  const std::vector<std::string> notes = notes_of(run);
  ASSERT_EQ(notes.size(), 1u) << run.err;
  EXPECT_TRUE(names(notes[0], facts));
}

TEST(UnknownText, IsReportedByEveryCommandThatEncodesIt) {
  const TempDir dir;
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += "a \u4e16 b c\n";
  write_plain_file(dir.file("text.txt"), text);
  write_plain_file(dir.file("known.txt"), "a b c a b c a b c a b c a b c");
  const std::vector<std::string> train = {"train",        dir.file("text.txt"),
                                          "--tokenizer",  kTokenizer,
                                          "--n-layer",    "1",
                                          "--n-head",     "1",
                                          "--n-ctx",      "16",
                                          "--n-embd",     "8",
                                          "--batch-size", "2",
                                          "--threads",    "1",
                                          "--steps",      "1",
                                          "--warmup",     "0",
                                          "--out",        dir.file("run")};
  expect_note(run_gpt(train), {100, 400, "25.0 %"});
  expect_note(run_gpt({"eval", dir.file("run"), dir.file("text.txt"), "--split", "all", "--threads", "1"}),
              {100, 400});
  expect_note(
      run_gpt({"data", "pack", dir.file("text.txt"), "--tokenizer", kTokenizer, "--out", dir.file("packed")}),
      {100, 400});
  const GptRun known =
      run_gpt({"eval", dir.file("run"), dir.file("known.txt"), "--split", "all", "--threads", "1"});
  EXPECT_TRUE(notes_of(known).empty()) << known.err;
}

TEST(UnknownText, IsReportedOfExamples) {
  const TempDir dir;
  const std::string base = dir.file("base");
  const GptRun run =
      run_gpt({"train",        "tales:5000", "--tokenizer", kTokenizer, "--n-layer", "1", "--n-head", "1",
               "--n-ctx",      "32",         "--n-embd",    "8",        "--steps",   "1", "--warmup", "0",
               "--eval-every", "0",          "--threads",   "1",        "--out",     base});
  ASSERT_EQ(run.status, 0) << run.err;
  std::string labelled, talks, pairs, asked;
  for (int i = 0; i < 4; ++i) {
    labelled += json{{"text", "a \u4e16"}, {"label", i % 2 == 0 ? "x" : "y"}}.dump() + "\n";
    pairs += json{{"prompt", "a"}, {"chosen", "\u4e16"}, {"rejected", "b"}}.dump() + "\n";
    asked += json{{"prompt", "a \u4e16"}, {"answer", "b"}}.dump() + "\n";
    talks += json{{"messages", json::array({json{{"role", "user"}, {"content", "a"}},
                                            json{{"role", "assistant"}, {"content", "\u4e16"}}})}}
                 .dump() +
             "\n";
  }
  const std::vector<std::tuple<std::string, std::string, std::vector<std::string>>> tasks = {
      {"classify", labelled, {}},
      {"chat", talks, {"--template", "chatml"}},
      {"dpo", pairs, {}},
      {"grpo", asked, {"--rollouts", "2", "--max-tokens", "2"}}};
  for (const auto& [task, examples, more] : tasks) {
    const std::string data = dir.file(task + ".jsonl");
    write_plain_file(data, examples);
    std::vector<std::string> words = {"finetune", base, "--task",    task, "--data", data,
                                      "--steps",  "1",  "--threads", "1",  "--out",  dir.file(task)};
    words.insert(words.end(), more.begin(), more.end());
    expect_note(run_gpt(words), {4});
  }
}

}  // namespace
