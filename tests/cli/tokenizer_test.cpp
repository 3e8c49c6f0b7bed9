// Tests gpt tokenizer train, encode, decode and info.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using gpt::test::TempDir;
using gpt::test::write_plain_file;
using nlohmann::json;

const std::string kTokenizer = GPT_SOURCE_DIR "/tests/data/bpe.tokenizer.json";

GptRun encode(const std::string& input, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"tokenizer", "encode", "--tokenizer", kTokenizer});
  return run_gpt(flags, {}, input);
}
GptRun decode(const std::string& input, std::vector<std::string> flags = {}) {
  flags.insert(flags.begin(), {"tokenizer", "decode", "--tokenizer", kTokenizer});
  return run_gpt(flags, {}, input);
}

TEST(TokenizerCommand, TrainsEncodesAndDecodes) {
  const TempDir folder;
  std::string text;
  for (int i = 0; i < 400; ++i)
    text += "the sailors sang of the land number " + std::to_string(i % 37) + "\n";
  write_plain_file(folder.file("a.txt"), text);
  for (const std::string pattern : {"gpt2", "gpt4", "nanochat", "o200k"}) {
    const std::string out = folder.file(pattern);
    const GptRun trained = run_gpt({"tokenizer", "train", "--data", folder.file("a.txt"), "--vocab-size",
                                    "310", "--pattern", pattern, "--special-tokens", "nanochat", "<|pad|>",
                                    "--out", out, "--json", "--against", kTokenizer});
    ASSERT_EQ(trained.status, 0) << trained.err;
    const json report = json::parse(trained.out);
    EXPECT_EQ(report["vocab_size"], 310);
    EXPECT_EQ(report["special_tokens"].size(), 10u);
    EXPECT_GT(report["bytes_per_token"], 1.5);
    EXPECT_LT(report["against"]["ratio"], 1.0);
    const GptRun ids = run_gpt({"tokenizer", "encode", "--tokenizer", out}, {}, text);
    ASSERT_EQ(ids.status, 0) << ids.err;
    EXPECT_EQ(std::ranges::count_if(ids.out, [](char c) { return c == ' ' || c == '\n'; }),
              report["text_tokens"]);
    EXPECT_EQ(run_gpt({"tokenizer", "decode", "--tokenizer", out}, {}, ids.out).out, text);
    const json info = json::parse(run_gpt({"tokenizer", "info", "--tokenizer", out, "--json"}).out);
    EXPECT_EQ(info["kind"], "bpe");
    EXPECT_EQ(info["merges"], report["merges"]);
  }
}

TEST(TokenizerCommand, TheSameForAnyNumberOfThreads) {
  const TempDir folder;
  write_plain_file(folder.file("a.txt"), run_gpt({"data", "tales", "--bytes", "700000"}).out);
  std::vector<std::string> results;
  for (const char* threads : {"1", "2", "5"}) {
    const std::string out = folder.file(std::string(threads) + ".json");
    EXPECT_EQ(run_gpt({"tokenizer", "train", "--data", folder.file("a.txt"), "--vocab-size", "500", "--out",
                       out, "--threads", threads})
                  .status,
              0);
    results.push_back(gpt::read_file(out));
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(TokenizerCommand, SpecialTokensOnlyWhereAskedFor) {
  EXPECT_EQ(encode("<|end|>", {"--special"}).out, "1\n");
  EXPECT_NE(encode("<|end|>").out, "1\n");
  EXPECT_EQ(encode("", {"--text", "<|end|>", "--special", "--json"}).out,
            "{\"ids\":[1],\"text_bytes\":7,\"tokens\":1}\n");
  EXPECT_EQ(encode("").out, "\n");
}

TEST(TokenizerCommand, JsonLines) {
  const std::string lines = "{\"text\":\"the end\"}\n\n{\"id\":3,\"text\":\"<|end|>\"}\n{\"text\":\"\"}";
  const GptRun run = encode(lines, {"--jsonl", "--special"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(std::ranges::count(run.out, '\n'), 3);
  EXPECT_NE(run.out.find("\n{\"ids\":[1]}\n{\"ids\":[]}\n"), std::string::npos) << run.out;
  EXPECT_EQ(decode(run.out, {"--jsonl"}).out,
            "{\"text\":\"the end\"}\n{\"text\":\"<|end|>\"}\n{\"text\":\"\"}\n");
  EXPECT_EQ(encode("{\"story\":\"x\"}", {"--jsonl", "--field", "story"}).status, 0);
}

TEST(TokenizerCommand, ErrorsNameTheLine) {
  const GptRun bad = encode("{\"text\":\"a\"}\n\n{\"txt\":\"b\"}\n{\"text\":\"c\"}\n", {"--jsonl"});
  expect_error(bad, 1, {"input:3", "\"text\"", "txt", "--field"});
  EXPECT_EQ(std::ranges::count(bad.out, '\n'), 1);  // earlier results are printed
  expect_error(encode("{\"text\":\"a\"}\nnot json\n", {"--jsonl"}), 1, {"input:2", "JSON", 2});
  expect_error(encode("{\"text\":\"\xff\"}\n", {"--jsonl"}), 1, {"input:1", "JSON", 10});
  expect_error(encode("one\ntwo \xc3(\n"), 1, {"input:2", "UTF-8", 8, "0xc3"});
  expect_error(decode("1 2\n3 x\n"), 1, {"input:2", "\"x\""});
  expect_error(decode("1 99999999999\n"), 1, {"input:1", "99999999999"});
  expect_error(decode("1 4242\n"), 1, {4242, 0, 419});
  expect_error(decode("-1\n"), 1, {"input:1", -1});
  expect_error(decode("{\"ids\":[1]}\n{\"ids\":[1.5]}\n", {"--jsonl"}), 1, {"input:2", 0, 419, "1.5"});
  expect_error(decode("{\"ids\":[4242]}\n", {"--jsonl"}), 1, {"input:1", 4242, 0, 419});
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  expect_error(decode("{\"ids\":[" + deep + "]}\n", {"--jsonl"}), 1, {"input:1"});
}

TEST(TokenizerCommand, DecodesAnyBytes) {
  EXPECT_EQ(decode("", {"--ids", "1,1"}).out, "<|end|><|end|>");
  const std::string bytes("\0\xff\x80 ab", 6);
  std::string ids;
  for (const char c : bytes)
    ids += std::to_string(static_cast<unsigned char>(c)) + ",";
  EXPECT_EQ(run_gpt({"tokenizer", "decode", "--tokenizer", "byte"}, {}, ids).out, bytes);
  EXPECT_EQ(run_gpt({"tokenizer", "encode", "--tokenizer", "byte"}, {}, bytes).status, 0);
}

TEST(TokenizerCommand, ExplainsWithoutColourInFiles) {
  const GptRun run = encode("", {"--text", "the cat", "--explain"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.out, {2, "\"the\"", "\" cat\""}));
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
  const json steps = json::parse(encode("", {"--text", "the cat", "--explain", "--json"}).out);
  EXPECT_EQ(steps["pieces"].size(), 2u);
  expect_error(encode(std::string(5000, 'a'), {"--explain"}), 1, {"--explain", 4096, 5000});
}

TEST(TokenizerCommand, WrongUse) {
  const auto run = [](std::vector<std::string> words) {
    words.insert(words.begin(), "tokenizer");
    return run_gpt(words);
  };
  expect_error(run({"encdoe"}), 2, {"tokenizer", "\"encdoe\"", "gpt tokenizer --help"});
  EXPECT_TRUE(suggests(run({"encdoe"}).err, "encdoe", "encode"));
  expect_error(run({"encode", "--speshal"}), 2, {"--speshal", "gpt tokenizer encode --help"});
  EXPECT_TRUE(suggests(run({"encode", "--speshal"}).err, "--speshal", "--special"));
  expect_error(run({"encode"}), 2, {"--tokenizer", "tokenizer.json", "byte"});
  expect_error(run({"encode", "--tokenizer", "char"}), 2, {"--tokenizer char", "tokenizer.json"});
  expect_error(run({"encode", "--tokenizer", "/nonexistent.json"}), 1,
               {"/nonexistent.json", "gpt tokenizer train FILE"});
  expect_error(run({"encode", "--tokenizer", "byte", "--jsonl", "--explain"}), 2, {"--jsonl", "--explain"});
  expect_error(run({"train", "--data", "x"}), 2, {"--out", ".json"});
  expect_error(run({"train", "--out", "x"}), 2, {"--data"});
  expect_error(run({"train", "--data", "/nonexistent.txt", "--out", "/tmp/x.json"}), 1, {"/nonexistent.txt"});
  const GptRun pattern = run({"train", "--data", kTokenizer, "--out", "x", "--pattern", "gpt3"});
  expect_error(pattern, 2, {"--pattern", "\"gpt3\""});
  EXPECT_TRUE(suggests(pattern.err, "\"gpt3\"", "gpt2"));
  expect_error(run({"train", "--data", kTokenizer, "--out", "x", "--vocab-size", "256"}), 2,
               {"--vocab-size", 257, 256, 1});
}

// A tokenizer next to the config.json of a run would be mistaken for the tokenizer of the run.
TEST(TokenizerCommand, WritesIntoNoRun) {
  const TempDir folder;
  std::filesystem::create_directories(folder.file("run/last"));
  write_plain_file(folder.file("run/config.json"), "{}");
  const GptRun run = run_gpt({"tokenizer", "train", kTokenizer, "--force", "--out", folder.file("run")});
  expect_error(run, 1, {"--out", folder.file("run")});
  EXPECT_FALSE(std::filesystem::exists(folder.file("run/tokenizer.json")));
}

// --force replaces tokenizer files, but no other JSON file.
TEST(TokenizerCommand, ReplacesOnlyTokenizers) {
  const TempDir folder;
  write_plain_file(folder.file("a.txt"), run_gpt({"data", "tales", "--bytes", "2000"}).out);
  const auto train = [&](const std::string& out) {
    return run_gpt({"tokenizer", "train", folder.file("a.txt"), "--vocab-size", "260", "--force", "--out",
                    folder.file(out)});
  };
  const std::string others[] = {R"({"model_type":"gpt2","n_layer":2})", "notes", R"([{"model":{}}])",
                                R"({"model":"gpt2"})"};
  for (const std::string& content : others) {
    write_plain_file(folder.file("x.json"), content);
    expect_error(train("x.json"), 1, {"--out", folder.file("x.json")});
    EXPECT_EQ(gpt::read_file(folder.file("x.json")), content);
  }
  write_plain_file(folder.file("x.json"), "");
  EXPECT_EQ(train("x.json").status, 0);
  std::filesystem::create_directory(folder.file("y"));
  write_plain_file(folder.file("y/tokenizer.json"), gpt::read_file(kTokenizer));
  EXPECT_EQ(train("y").status, 0);
  EXPECT_EQ(gpt::read_file(folder.file("y/tokenizer.json")), gpt::read_file(folder.file("x.json")));
}

// Tests gpt data pack, gpt data info, and training from shards.
class PackCommand : public testing::Test {
 protected:
  void SetUp() override {
    text_ = run_gpt({"data", "tales", "--bytes", "60000"}).out;
    write_plain_file(folder_.file("a.txt"), text_);
    write_plain_file(folder_.file("b.jsonl"), json{{"text", text_}}.dump() + "\n");
  }
  GptRun pack(const std::string& file, const std::string& out, std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"data", "pack", "--data", folder_.file(file), "--tokenizer", "byte", "--out",
                                 folder_.file(out)});
    return run_gpt(flags);
  }

  TempDir folder_;
  std::string text_;
};

TEST_F(PackCommand, PacksAndDescribes) {
  const GptRun run = pack("a.txt", "shards", {"--shard-tokens", "25000", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["tokens"], text_.size());
  EXPECT_EQ(json::parse(run.out)["shards"], 3);
  const GptRun info =
      run_gpt({"data", "info", folder_.file("shards"), "--check", "--json", "--tokenizer", "byte"});
  ASSERT_EQ(info.status, 0) << info.err;
  EXPECT_EQ(json::parse(info.out)["tokens"], text_.size());
  expect_error(pack("b.jsonl", "shards"), 1, {folder_.file("shards"), "--out", "--restart"});
  expect_error(run_gpt({"data", "info", folder_.file("a.txt")}), 1,
               {folder_.file("a.txt"), "gpt data pack", "gpt data preview --data"});
  expect_error(run_gpt({"data", "info", folder_.file("shards"), "--tokenizer", kTokenizer}), 1,
               {folder_.file("shards/shard-00000.bin"), 256, 420, "--tokenizer"});
  expect_error(pack("a.txt", "x", {"--document-token", "<|nope|>"}), 2, {"\"<|nope|>\""});
  const GptRun format = pack("a.txt", "x", {"--format", "llm"});
  expect_error(format, 2, {"--format", "\"llm\""});
  EXPECT_TRUE(suggests(format.err, "\"llm\"", "llmc"));
}

// Training from a shard gives the same run as training from its text. A run with mixed data resumes
// bit-identically.
TEST_F(PackCommand, TrainsFromShards) {
  for (const char* format : {"gpt", "llmc"})
    ASSERT_EQ(pack("a.txt", std::string(format) + ".bin", {"--format", format}).status, 0);
  const auto train = [&](const std::vector<std::string>& data, const std::string& out,
                         std::vector<std::string> flags = {}) {
    std::vector<std::string> words = {"train", "--data"};
    words.insert(words.end(), data.begin(), data.end());
    flags.insert(flags.begin(),
                 {"--n-layer", "1", "--n-head", "1", "--n-embd", "8", "--n-ctx", "16", "--batch-size", "4",
                  "--steps", "6", "--eval-every", "3", "--out", folder_.file(out)});
    words.insert(words.end(), flags.begin(), flags.end());
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 0) << run.err;
    return out;
  };
  const auto weights = [&](const std::string& run) {
    return gpt::read_file(folder_.file(run) + "/last/model.safetensors");
  };
  train({folder_.file("a.txt")}, "text");
  for (const std::string format : {"gpt", "llmc"}) {
    train({folder_.file(format + ".bin")}, format);
    EXPECT_TRUE(weights(format) == weights("text")) << format;
  }
  write_plain_file(folder_.file("c.txt"), run_gpt({"data", "tales", "--bytes", "20000", "--seed", "9"}).out);
  const std::vector<std::string> mix = {folder_.file("gpt.bin") + "=0.7", folder_.file("c.txt") + "=0.3"};
  train(mix, "mix");
  train(mix, "parts", {"--stop-after", "2", "--threads", "1"});
  EXPECT_EQ(run_gpt({"train", "--resume", "--out", folder_.file("parts")}).status, 0);
  EXPECT_TRUE(weights("mix") == weights("parts"));
  EXPECT_FALSE(weights("mix") == weights("text"));
}

TEST_F(PackCommand, WrongMixtures) {
  ASSERT_EQ(pack("a.txt", "a.bin").status, 0);
  const auto train = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "--preset", "tiny", "--out", folder_.file("run"), "--data"});
    return run_gpt(words);
  };
  const std::string shard = folder_.file("a.bin"), text = folder_.file("a.txt");
  expect_error(train({shard + "=0.5", text}), 2, {"data", "1 of 2", "NAME=WEIGHT"});
  expect_error(train({shard + "=0", text + "=1"}), 2, {'"' + shard + "=0\"", "NAME=WEIGHT", "1e+12"});
  expect_error(train({shard + "=1e-9", text + "=1"}), 2, {"data", "1e-09", "1/65536"});
  expect_error(train({shard, "--tokenizer", kTokenizer}), 1, {shard, 256, 420, "--tokenizer"});
  expect_error(train({shard, "--tokenizer", "char"}), 2, {"--tokenizer char"});
}

}  // namespace
