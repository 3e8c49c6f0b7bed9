// Tests an array job of gpt tokenizer train: eight tasks count words and one process merges. Three tasks are
// killed and repeated.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "gpt_process.h"
#include "run_gpt.h"
#include "support/compress.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class TokenizerTasks : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }

  void SetUp() override {
    fs::create_directory(path("text"));
    const std::string tales = run_gpt({"data", "tales", "--bytes", "12000000"}).out;
    std::string lines;
    for (size_t at = 0; at + 400 < tales.size() / 2; at += 400) {
      std::string text = tales.substr(at, 400);
      std::erase_if(text, [](char c) { return c == '"' || c == '\\' || c == '\n'; });
      lines += "{\"text\":\"" + text + "\"}\n";
    }
    gpt::test::write_plain_file(path("text/a.txt"), tales);
    gpt::test::write_plain_file(path("text/b.jsonl.gz"), gpt::test::gzip(lines));
    gpt::test::write_plain_file(path("text/c.txt"), "the end");
  }

  Words train(const std::string& out, const Words& more = {}) const {
    Words words = {"tokenizer",        "train", "--data", path("text"), "--vocab-size", "500",
                   "--threads",        "1",     "--out",  path(out),    "--pattern",    "gpt4",
                   "--special-tokens", "chatml"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words merge(const std::string& out) const { return {"tokenizer", "train", "--out", path(out), "--merge"}; }
  gpt::test::TempDir folder_;
};

TEST_F(TokenizerTasks, KilledAndRepeatedTheyGiveTheBytesOfOne) {
  ASSERT_EQ(run_gpt(train("one")).status, 0);
  for (int number = 1; number <= 8; ++number) {
    const Words words = train("many", {"--task", std::to_string(number) + "/8"});
    if (number % 3 == 1) {  // the size limit on the file of words kills this task
      GptProcess gpt(words, [] {
        const rlimit limit{1500, 1500}, none{0, 0};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0 || ::setrlimit(RLIMIT_CORE, &none) != 0) ::_exit(127);
      });
      EXPECT_EQ(gpt.end(), -SIGXFSZ);
      EXPECT_TRUE(fs::exists(path("many/.tasks/" + std::to_string(number) + "-of-8/.lock")));
    } else {
      const GptRun run = run_gpt(words);
      EXPECT_EQ(run.status, 0) << run.err;
    }
  }
  expect_error(run_gpt(merge("many")), 1,
               {path("many"), 3, 8, "1/8, 4/8, 7/8", "gpt tokenizer train", "--task 1/8"});
  expect_error(
      run_gpt({"data", "pack", "--data", path("text"), "--tokenizer", path("many"), "--out", path("shards")}),
      1, {path("many"), "gpt tokenizer train --out " + path("many") + " --merge"});
  for (const char* task : {"1/8", "4/8", "7/8", "2/8"})
    EXPECT_EQ(run_gpt(train("many", {"--task", task})).status, 0);
  const GptRun merged = run_gpt(merge("many"));
  EXPECT_EQ(merged.status, 0) << merged.err;
  EXPECT_TRUE(gpt::read_file(path("many/tokenizer.json")) == gpt::read_file(path("one/tokenizer.json")));
  EXPECT_FALSE(fs::exists(path("many/.tasks")));
  expect_error(run_gpt(train("many", {"--task", "1/8"})), 1,
               {"--out", path("many/tokenizer.json"), "--force"});
}

TEST_F(TokenizerTasks, WhatDoesNotGoTogetherIsNamed) {
  expect_error(run_gpt(train("t", {"--task", "3/2"})), 2, {"--task", "1 <= I <= N <= 500", "\"3/2\""});
  expect_error(run_gpt(train("t.json", {"--task", "1/2"})), 2, {"--out", "--task", path("t.json")});
  expect_error(run_gpt(train("t", {"--merge"})), 2, {"--data", "--merge"});
  ASSERT_EQ(run_gpt(train("t", {"--task", "1/2"})).status, 0);
  ASSERT_EQ(run_gpt(train("t", {"--task", "2/2", "--field", "text", "--no-special"})).status, 2);
  expect_error(run_gpt(train("t", {"--task", "2/3"})), 1,
               {path("t"), "--task I/2", "--task 2/3", path("t/.tasks")});
  expect_error(run_gpt({"train", path("t"), "--tokenizer", "byte", "--preset", "tiny", "--out", path("r")}),
               1, {path("t"), 2, "gpt tokenizer train --out " + path("t") + " --merge"});
  const Words other = {"tokenizer", "train", "--data", path("text"), "--vocab-size", "500",
                       "--threads", "1",     "--out",  path("t"),    "--task",       "2/2"};
  const std::string first = path("t/.tasks/1-of-2/words"), second = path("t/.tasks/2-of-2/words");
  expect_error(run_gpt(other), 1, {first, "2/2", path("t/.tasks")});
  fs::rename(first, path("words"));  // as if both tasks started at the same time
  ASSERT_EQ(run_gpt(other).status, 0);
  fs::rename(path("words"), first);
  expect_error(run_gpt(merge("t")), 1, {second, first});
  fs::remove(second);
  ASSERT_EQ(run_gpt(train("t", {"--task", "2/2"})).status, 0);
  const std::string words = gpt::read_file(second);
  for (size_t at = 0; at < words.size(); at += words.size() / 10) {
    std::string damaged = words;
    damaged[at] ^= 1;
    gpt::test::write_plain_file(second, at % 2 == 0 ? damaged : words.substr(0, at));
    expect_error(run_gpt(merge("t")), 1, {second, "gpt tokenizer train --task"});
  }
  gpt::test::write_plain_file(second, words);
  expect_error(run_gpt({"tokenizer", "train", "--out", path("t"), "--merge", "--max-words", "1000"}), 1,
               {1000, "--merge", "--max-words"});
}

}  // namespace
