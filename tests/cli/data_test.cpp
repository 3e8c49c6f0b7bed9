// Tests the input data of commands: all commands share one reader, shards are verified, and packing repairs
// damaged shards.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "run_gpt.h"
#include "support/compress.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using gpt::test::TempDir;
using gpt::test::write_plain_file;
using nlohmann::json;

// Returns the number of lines that begin with an object.
int lines_about(const std::string& text, const std::string& object) {
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line);)
    count += line.starts_with(object) ? 1 : 0;
  return count;
}

class DataCommands : public testing::Test {
 protected:
  void SetUp() override {
    text_ = run_gpt({"data", "tales", "--bytes", "20000"}).out;
    write_plain_file(file("a.txt"), text_);
  }
  std::string file(const std::string& name) const { return folder_.file(name); }

  GptRun train(const std::string& data, const std::string& out, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(),
                 {"train", "--data", data, "--n-layer", "1", "--n-head", "1", "--n-embd", "8", "--n-ctx",
                  "16", "--batch-size", "4", "--steps", "4", "--eval-every", "0", "--out", file(out)});
    return run_gpt(flags);
  }
  std::string weights(const std::string& run) {
    return gpt::read_file(file(run) + "/last/model.safetensors");
  }
  GptRun pack(const std::string& data, const std::string& out, std::vector<std::string> flags = {},
              const std::string& tokenizer = "byte") {
    flags.insert(flags.begin(), {"data", "pack", "--data", data, "--tokenizer", tokenizer, "--shard-tokens",
                                 "5000", "--out", file(out)});
    return run_gpt(flags);
  }
  double loss(const std::string& data) {
    const GptRun run = run_gpt({"eval", file("text"), "--data", data, "--split", "all", "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    return run.status == 0 ? json::parse(run.out)["loss"].get<double>() : -1;
  }

  TempDir folder_;
  std::string text_;
};

// Every text format that `gpt data pack` reads, and packed shards of the same text, give the same run and the
// same loss.
TEST_F(DataCommands, AllFormsOfATextAreTheSame) {
  ASSERT_EQ(train(file("a.txt"), "text").status, 0);
  const double expected = loss(file("a.txt"));
  write_plain_file(file("a.txt.gz"), gpt::test::gzip(text_));
  write_plain_file(file("misnamed.txt"), gpt::test::zstd(text_));
  write_plain_file(file("a.jsonl"), json{{"text", text_}}.dump() + "\n");
  write_plain_file(file("a.jsonl.zst"), gpt::test::zstd(json{{"text", text_}}.dump()));
  ASSERT_EQ(pack(file("a.txt"), "shards").status, 0);
  for (const std::string name : {"a.txt.gz", "misnamed.txt", "a.jsonl", "a.jsonl.zst", "shards"}) {
    const GptRun run = train(file(name), "run-" + name);
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(weights("run-" + name) == weights("text")) << name;
    EXPECT_EQ(loss(file(name)), expected) << name;
  }
}

TEST_F(DataCommands, OtherFilesAreRefusedByEveryCommand) {
  ASSERT_EQ(train(file("a.txt"), "text").status, 0);
  write_plain_file(file("a.parquet"), std::string("PAR1\0\0", 6));
  write_plain_file(file("a.csv"), "a,b\n");
  write_plain_file(file("a.bin"), std::string(1000, '\1'));
  fs::create_symlink("loop.txt", file("loop.txt"));
  // The second member is a part of the advice in the error message.
  for (const auto& [name, way] : {std::pair{"a.parquet", R"({"text": ...})"},
                                  {"a.csv", ".txt"},
                                  {"a.bin", "gpt data pack"},
                                  {"loop.txt", ""}}) {
    const std::string path = file(name);
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"train", "--preset", "tiny", "--out", file("no")},
          {"eval", file("text")},
          {"data", "preview"},
          {"plan", "--preset", "tiny"},
          {"data", "pack", "--tokenizer", "byte", "--out", file("no")},
          {"tokenizer", "train", "--out", file("tok")}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"--data", path});
      expect_error(run_gpt(words), 1, {path, way});
    }
  }
}

// Every command that takes a path reports a loop of symbolic links with its path.
TEST_F(DataCommands, LoopsOfLinksAreNamedByOtherCommands) {
  fs::create_symlink("loop", file("loop"));
  for (const std::vector<std::string>& words : {std::vector<std::string>{"info"},
                                                {"generate"},
                                                {"report"},
                                                {"trace"},
                                                {"data", "info"},
                                                {"data", "verify"}}) {
    std::vector<std::string> command = words;
    command.push_back(file("loop"));
    const GptRun run = run_gpt(command);
    EXPECT_EQ(run.status, 1);
    EXPECT_TRUE(names(run.err, {file("loop")}));
    EXPECT_FALSE(names(run.err, {"[" + file("loop") + "]"})) << "as the library would say it";
  }
}

TEST_F(DataCommands, FoldersSayWhatTheySkip) {
  fs::create_directories(file("texts"));
  fs::copy(file("a.txt"), file("texts/a.txt"));
  for (const char* name : {"b.pdf", "c.parquet", "d.csv", "e.docx"})
    write_plain_file(file("texts/") + name, "x");
  for (const GptRun& run :
       {run_gpt({"data", "preview", "--data", file("texts")}), train(file("texts"), "run"),
        run_gpt({"eval", file("run"), "--data", file("texts")}), pack(file("texts"), "s")}) {
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.err, {file("texts"), 1, 4, "b.pdf, c.parquet, d.csv"}));
    EXPECT_FALSE(names(run.err, {"e.docx"})) << "it is 1 more";
  }
}

// The document token of the tokenizer separates rows, as in packed data.
TEST_F(DataCommands, RowsAreSeparatedAsWhenPacked) {
  std::string rows;
  for (size_t at = 0; at + 200 <= text_.size(); at += 200)
    rows += json{{"text", text_.substr(at, 200)}}.dump() + "\n";
  write_plain_file(file("rows.jsonl"), rows);
  const auto trained = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(),
                 {"tokenizer", "train", "--data", file("rows.jsonl"), "--vocab-size", "300", "--json"});
    const GptRun run = run_gpt(flags);
    EXPECT_EQ(run.status, 0) << run.err;
    return json::parse(run.out);
  };
  for (const char* pattern : {"gpt2", "gpt4", "nanochat", "o200k", "gpt1"}) {
    const json report = trained({"--out", file(pattern), "--pattern", pattern});
    EXPECT_EQ(report["special_tokens"].back()["text"], "<|endoftext|>") << pattern;
    const json none =
        trained({"--out", file(std::string("none-") + pattern), "--pattern", pattern, "--no-special"});
    EXPECT_EQ(none["vocab_size"], 300) << pattern;
    EXPECT_EQ(report["vocab_size"], 300) << pattern;
    EXPECT_EQ(none["merges"], report["merges"].get<int>() + 1) << pattern;
    ASSERT_EQ(pack(file("rows.jsonl"), std::string("s-") + pattern, {}, file(pattern)).status, 0);
    const std::string tokens = "--tokenizer";
    ASSERT_EQ(train(file("rows.jsonl"), std::string("rows-") + pattern, {tokens, file(pattern)}).status, 0);
    ASSERT_EQ(
        train(file(std::string("s-") + pattern), std::string("packed-") + pattern, {tokens, file(pattern)})
            .status,
        0);
    EXPECT_TRUE(weights(std::string("rows-") + pattern) == weights(std::string("packed-") + pattern))
        << pattern;
  }
  const GptRun run = run_gpt({"data", "preview", "--data", file("rows.jsonl"), "--tokenizer", file("gpt2")});
  EXPECT_TRUE(names(run.err, {100, "<|endoftext|>"}));
}

// No token crosses the border between two documents, whether they are rows or files.
TEST_F(DataCommands, TokenizersKeepDocumentsApart) {
  std::string rows;
  fs::create_directories(file("texts"));
  for (int i = 0; i < 300; ++i)
    rows += "{\"text\":\"foo\"}\n{\"text\":\"bar\"}\n";
  write_plain_file(file("rows.jsonl"), rows);
  for (int i = 0; i < 60; ++i)
    write_plain_file(file("texts/") + std::to_string(100 + i) + ".txt", i % 2 == 0 ? "foo" : "bar");
  for (const char* data : {"rows.jsonl", "texts"}) {
    for (const char* pattern : {"gpt2", "gpt4", "nanochat", "o200k", "gpt1"}) {
      const GptRun run = run_gpt({"tokenizer", "train", "--data", file(data), "--pattern", pattern, "--out",
                                  file(std::string("tok-") + data + pattern), "--json"});
      ASSERT_EQ(run.status, 0) << run.err;
      const std::string longest = json::parse(run.out)["longest_tokens"].dump();
      EXPECT_NE(longest.find("foo"), std::string::npos) << longest;
      EXPECT_EQ(longest.find("foob"), std::string::npos) << longest;
      EXPECT_EQ(longest.find("barf"), std::string::npos) << longest;
    }
  }
}

// Damage that shard headers do not reveal stops a run before it saves a model. Damage that they reveal stops
// the run before it starts.
TEST_F(DataCommands, DamagedShardsStopARun) {
  ASSERT_EQ(pack(file("a.txt"), "shards").status, 0);
  ASSERT_EQ(train(file("shards"), "good").status, 0);
  const std::string shard = file("shards/shard-00002.bin"), bytes = gpt::read_file(shard);
  std::string flipped = bytes;
  flipped[3000] ^= 1;
  write_plain_file(shard, flipped);
  EXPECT_EQ(run_gpt({"data", "info", file("shards")}).status, 0);
  const GptRun missing = run_gpt({"data", "info", file("none")});
  expect_error(missing, 1, {file("none")});
  EXPECT_FALSE(names(missing.err, {"gpt data pack"})) << "the name is wrong, not its content";
  const GptRun verified = run_gpt({"data", "verify", file("shards")});
  expect_error(verified, 1, {1, 4, "gpt data pack"});
  EXPECT_TRUE(names(verified.out, {"shard-00002.bin"}));
  expect_error(train(file("shards"), "bad"), 1, {file("shards/shard-00002.bin")});
  EXPECT_FALSE(fs::exists(file("bad/last")));
  fs::remove(shard);
  for (const GptRun& run : {run_gpt({"data", "info", file("shards")}), train(file("shards"), "bad2"),
                            run_gpt({"eval", file("good"), "--data", file("shards")}),
                            run_gpt({"data", "preview", "--data", file("shards")}),
                            run_gpt({"plan", "--preset", "tiny", "--data", file("shards")})})
    expect_error(run, 1, {shard, "pack.json", 4, "gpt data pack"});
  const GptRun again = pack(file("a.txt"), "shards");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_TRUE(names(again.err, {3, 4, shard, "pack.json"}));
  EXPECT_TRUE(gpt::read_file(shard) == bytes);
  EXPECT_EQ(run_gpt({"data", "verify", file("shards")}).status, 0);
}

TEST_F(DataCommands, DryRunsWriteNothing) {
  const auto dry = [&] { return pack(file("a.txt"), "shards", {"--dry-run"}); };
  EXPECT_TRUE(names(dry().out, {file("shards"), 4}));
  EXPECT_FALSE(names(dry().out, {"pack.json"})) << "nothing to repair";
  EXPECT_FALSE(fs::exists(file("shards")));
  const GptRun numbers = pack(file("a.txt"), "shards", {"--dry-run", "--json"});
  EXPECT_EQ(json::parse(numbers.out)["tokens"], text_.size());
  EXPECT_EQ(json::parse(numbers.out)["shards"], 4);
  ASSERT_EQ(pack(file("a.txt"), "shards").status, 0);
  fs::remove(file("shards/shard-00001.bin"));
  EXPECT_TRUE(names(dry().out, {"shard-00001.bin", "pack.json", 4}));
  EXPECT_FALSE(fs::exists(file("shards/shard-00001.bin")));
}

// After a failed pack, the same command succeeds as soon as the cause is fixed.
TEST_F(DataCommands, AFailedPackCanBeRepeated) {
  write_plain_file(file("bad.jsonl"), "{\"text\":\"good\"}\n{\"txt\":1}\n");
  expect_error(pack(file("bad.jsonl"), "first"), 1, {file("bad.jsonl:2"), "\"text\"", "txt", "--field"});
  write_plain_file(file("bad.jsonl"), "{\"text\":\"good\"}\n{\"text\":\"better\"}\n");
  EXPECT_EQ(pack(file("bad.jsonl"), "first").status, 0);
  // A failed pack can also be repeated after complete shards were written. Shards of unchanged text are kept.
  fs::create_directories(file("texts"));
  fs::copy(file("a.txt"), file("texts/a.txt"));
  write_plain_file(file("texts/b.jsonl"), "{\"text\":\"good\"}\n{\"txt\":1}\n");
  const std::vector<std::string> threads = {"--threads", "1"};
  expect_error(pack(file("texts"), "second", threads), 1, {file("texts/b.jsonl:2"), "\"text\"", "txt"});
  write_plain_file(file("texts/b.jsonl"), "{\"text\":\"good\"}\n{\"text\":\"better\"}\n");
  const GptRun again = pack(file("texts"), "second", threads);
  EXPECT_EQ(again.status, 0) << again.err;
  ASSERT_EQ(pack(file("texts"), "whole").status, 0);
  for (int i = 0; i < 5; ++i) {
    const std::string name = "/shard-0000" + std::to_string(i) + ".bin";
    EXPECT_TRUE(gpt::read_file(file("second") + name) == gpt::read_file(file("whole") + name)) << name;
  }
}

// Data that is named twice, under any name, is used once. Without this check, the run would train on held-out
// text.
TEST_F(DataCommands, DataNamedTwiceAreTakenOnce) {
  fs::create_directories(file("texts"));
  fs::copy(file("a.txt"), file("texts/a.txt"));
  ASSERT_EQ(pack(file("a.txt"), "shards").status, 0);
  const std::string text = file("texts/a.txt"), shard = file("shards/shard-00000.bin");
  ASSERT_EQ(train(text, "once").status, 0);
  const auto twice = [&](const std::string& first, const std::string& second, const std::string& out) {
    const GptRun run = train(first, out, {"--data", second});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(lines_about(run.err, second), 1) << "that it is taken once: " << run.err;
    EXPECT_TRUE(weights(out) == weights("once")) << out;
  };
  twice(text, text, "1");
  twice(file("texts"), file("texts/../texts/a.txt"), "2");
  twice(file("shards"), shard, "3");
  const GptRun weighted = train(text + "=1", "no", {"--data", text + "=2"});
  EXPECT_EQ(weighted.status, 2);
  EXPECT_TRUE(names(weighted.err, {text}));
  for (const std::string& val : {file("shards"), shard}) {
    const GptRun run = train(file("shards"), "val-" + std::to_string(val.size()), {"--val-data", val});
    EXPECT_EQ(lines_about(run.err, "note: " + shard), 1) << "it is both texts at once: " << run.err;
  }
}

TEST_F(DataCommands, UnusualTextIsTold) {
  write_plain_file(file("odd.txt"), "\xef\xbb\xbf" + text_ + "a\r\nb\xe4");
  const std::string at = std::to_string(text_.size() + 7);
  for (const GptRun& run : {train(file("odd.txt"), "odd"), pack(file("odd.txt"), "shards")}) {
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.err, {"CRLF", 1, file("odd.txt"), "UTF-8", at}));
    EXPECT_EQ(lines_about(run.err, file("odd.txt")), 3) << "the third is about the mark: " << run.err;
  }
}

TEST_F(DataCommands, PackDoesNotReplaceOtherFiles) {
  write_plain_file(file("model.bin"), "precious");
  expect_error(pack(file("a.txt"), "model.bin"), 1, {file("model.bin")});
  expect_error(pack(file("a.txt"), "model.bin", {"--restart"}), 1, {file("model.bin")});
  EXPECT_EQ(gpt::read_file(file("model.bin")), "precious");
  ASSERT_EQ(pack(file("a.txt"), "one.bin").status, 0);
  EXPECT_TRUE(names(pack(file("a.txt"), "one.bin").err, {1}));
  write_plain_file(file("b.txt"), text_ + "more");
  expect_error(pack(file("b.txt"), "one.bin"), 1, {file("one.bin"), "--restart"});
  EXPECT_EQ(pack(file("b.txt"), "one.bin", {"--restart"}).status, 0);
}

}  // namespace
