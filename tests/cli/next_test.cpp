// Tests that the command in the line "next: gpt ..." works for every command.

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using gpt::test::TempDir;
using gpt::test::write_plain_file;
using Words = std::vector<std::string>;

// Splits a command line into words, with ' as the quote character.
Words shell_words(const std::string& line) {
  Words words;
  bool in_word = false, quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c == '\\' && !quoted) {
      words.back() += line[++i];
    } else if (c != '\'') {
      words.back() += c;
    }
  }
  return words;
}

// Returns a plural after the number 1 in a text, such as "1 steps".
std::string plural_of_one(const std::string& text) {
  static const std::regex pattern(
      "(^|[^-,.0-9a-z])1 "
      "(bytes|blocks|conversations|documents|epochs|examples|files|heads|layers|lines|models|"
      "pairs|passes|rows|runs|samples|shards|steps|threads|times|tokens|windows)\\b");
  std::smatch found;
  return std::regex_search(text, found, pattern) ? found[0].str() : "";
}

Words next_words(const GptRun& run) {
  const std::string mark = "\nnext: gpt ";
  const std::string text = "\n" + run.err;
  const size_t at = text.rfind(mark);
  if (at == std::string::npos) return {};
  const size_t begin = at + mark.size();
  return shell_words(text.substr(begin, text.find('\n', begin) - begin));
}

// Commands run in a temporary folder, because the commands that they suggest write files.
class NextCommands : public testing::Test {
 protected:
  void SetUp() override { fs::current_path(dir_.path()); }
  void TearDown() override { fs::current_path(before_); }

  // Runs a command and then the command that it suggests. Suggested training stops after one step.
  static void try_next(const Words& words) {
    const GptRun run = run_gpt(words);
    ASSERT_EQ(run.status, 0) << words[0] << ": " << run.err;
    const Words next = next_words(run);
    ASSERT_FALSE(next.empty()) << words[0] << ": " << run.err;
    fs::remove_all("run");
    const GptRun then = run_gpt(
        next, {"GPT_STOP_AFTER=1", "GPT_N_LAYER=1", "GPT_N_HEAD=1", "GPT_N_KV_HEAD=1", "GPT_N_EMBD=8"});
    EXPECT_EQ(then.status, 0) << words[0] << ": " << run.err << then.err;
    for (const std::string* text : {&run.out, &run.err, &then.out, &then.err})
      EXPECT_EQ(plural_of_one(*text), "") << words[0];
  }

 private:
  const fs::path before_ = fs::current_path();
  const TempDir dir_;
};

const Words kSmall = {"--n-layer",    "1", "--n-head",  "1", "--n-embd", "8", "--n-ctx",  "64",
                      "--batch-size", "2", "--threads", "1", "--steps",  "2", "--warmup", "0"};

Words train(const Words& words) {
  Words all = {"train"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), kSmall.begin(), kSmall.end());
  return all;
}

Words tune(const std::string& model, const std::string& task, const std::string& out,
           const Words& more = {}) {
  Words all = {"finetune", model, "--task", task, "--data",    task + ".jsonl",
               "--steps",  "1",   "--out",  out,  "--threads", "1"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void write_examples() {
  std::string talks, labelled, pairs;
  for (const std::string name : {"a", "b", "c", "d"}) {
    talks += R"({"messages":[{"role":"user","content":")" + name +
             R"("},{"role":"assistant","content":"yes"}]})" + "\n";
    labelled += R"({"text":")" + name + R"(","label":")" + (name < "c" ? "x" : "y") + "\"}\n";
    pairs += R"({"prompt":")" + name + R"(","chosen":"yes","rejected":"no"})" + "\n";
  }
  write_plain_file("chat.jsonl", talks);
  write_plain_file("classify.jsonl", labelled);
  write_plain_file("dpo.jsonl", pairs);
}

TEST_F(NextCommands, OfATourWork) {
  const std::string tokenizer = GPT_SOURCE_DIR "/tests/data/chat.tokenizer.json";
  try_next({"data", "tales", "--bytes", "5000", "-o", "text.txt"});
  write_examples();
  try_next(train({"text.txt", "--tokenizer", tokenizer, "--out", "base"}));
  try_next(tune("base", "chat", "talker", {"--template", "chatml"}));
  try_next(tune("base", "classify", "labeller"));
  try_next(tune("base", "dpo", "preferred"));
  try_next(tune("talker", "chat", "adapter", {"--lora-rank", "2"}));
  try_next(tune("base", "dpo", "adapter2", {"--lora-rank", "2"}));
  for (const char* run : {"base", "talker", "labeller", "preferred", "adapter", "adapter2"}) {
    try_next({"report", run});
  }
  try_next({"info", "adapter"});
  try_next({"convert", "base", "hf"});
  try_next({"convert", "base", "q8.gguf", "--quant", "q8_0"});
  try_next({"convert", "talker", "merged", "--adapter", "adapter"});
  try_next({"convert", "adapter", "adapter.gguf"});
  try_next({"convert", "adapter2", "peft", "--base", "base"});
  try_next({"eval", "base", "text.txt", "--threads", "1"});
  try_next({"eval", "talker", "text.txt", "--adapter", "adapter", "--threads", "1"});
}

TEST_F(NextCommands, OfDataAndPlansWork) {
  const std::string tokenizer = GPT_SOURCE_DIR "/tests/data/chat.tokenizer.json";
  ASSERT_EQ(run_gpt({"data", "tales", "--bytes", "5000", "-o", "text.txt"}).status, 0);
  try_next({"data", "preview", "text.txt"});
  try_next({"tokenizer", "train", "text.txt", "--vocab-size", "300", "-o", "tok"});
  try_next({"tokenizer", "info", "tok"});
  try_next({"data", "pack", "text.txt", "--tokenizer", tokenizer, "-o", "shards"});
  try_next({"data", "info", "shards"});
  try_next({"data", "pack", "text.txt", "--tokenizer", "tok", "-o", "one.bin"});
  try_next({"data", "info", "one.bin", "--tokenizer", "tok"});
  EXPECT_TRUE(next_words(run_gpt({"data", "info", "one.bin"})).empty()) << "no tokenizer is known";
  try_next({"plan", "text.txt", "--preset", "tiny", "--measure", "0"});
  try_next({"plan", "text.txt", "--measure", "0"});
  Words sweep = train({"text.txt", "--over", "lr=1e-3,2e-3", "--out", "swept"});
  sweep.front() = "sweep";
  try_next(sweep);
}

// A run that ends before its first checkpoint has no model to use, so it suggests no command.
TEST_F(NextCommands, ARunWithoutAModelHasNone) {
  const GptRun run =
      run_gpt(with_flags(train({"tales:5000", "--out", "bad"}), {"--lr", "1000", "--steps", "50"}));
  ASSERT_EQ(run.status, 1) << run.err;
  EXPECT_TRUE(names(run.err, {"NaN"}));
  EXPECT_EQ(run.err.find("-nan"), std::string::npos) << run.err;
  const GptRun report = run_gpt({"report", "bad"});
  EXPECT_EQ(report.status, 0) << report.err;
  EXPECT_TRUE(next_words(report).empty()) << report.err;
}

}  // namespace
