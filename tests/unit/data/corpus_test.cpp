#include "data/corpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/process_memory.h"
#include "base/thread_pool.h"
#include "data/pack.h"
#include "data/preview.h"
#include "data/token_data.h"
#include "support/compress.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using test::error_of;
using test::names;
using test::refused;
namespace fs = std::filesystem;

class CorpusFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    const fs::path path = fs::path(folder_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }
  Corpus load(std::vector<std::string> paths) { return load_corpus(paths); }
  test::TempDir temporary_;
  std::string folder_ = temporary_.path();
};

TEST_F(CorpusFiles, JoinsFilesAndFoldersInOrder) {
  const std::string one = write("z.md", "first ");
  write("texts/b.txt", "third");
  write("texts/a/c.txt", "second ");
  write("texts/ignored.bin", "xxx");
  const Corpus corpus = load({one, folder_ + "/texts"});
  EXPECT_EQ(corpus.text, "first second third");
  ASSERT_EQ(corpus.documents.size(), 3u);
  EXPECT_EQ(corpus.content(corpus.documents[1]), "second ");
  EXPECT_EQ(corpus.documents[2].offset, 13);
}

// All commands share one reader, so the ids here equal those of `gpt data pack`.
TEST_F(CorpusFiles, ReadsRowsAndCompressedFiles) {
  const std::string rows = "{\"text\":\"one\"}\n\n{\"text\":\"\"}\n{\"id\":1,\"text\":\"two\"}\n";
  const std::string plain = write("a.jsonl", rows), packed = write("b.jsonl.zst", test::zstd(rows));
  const std::string text = write("c.txt.gz", test::gzip("three"));
  const Corpus corpus = load({plain, packed, text});
  EXPECT_EQ(corpus.text, "onetwoonetwothree");
  ASSERT_EQ(corpus.documents.size(), 5u);
  EXPECT_EQ(corpus.name(corpus.documents[1]), plain + ":4");
  EXPECT_EQ(corpus.name(corpus.documents[4]), text);
  EXPECT_TRUE(names(corpus.notes, {2}));
  const std::string bad = write("bad.jsonl", "{\"text\":\"a\"}\n{\"txt\":1}\n");
  EXPECT_TRUE(refused([&] { load({bad}); }, bad + ":2", {"text", "txt"}));
  const std::string empty = write("empty.jsonl", "{\"text\":\"\"}\n");
  EXPECT_TRUE(refused([&] { load({empty}); }, empty));
  const std::string stories[] = {
      write("stories.jsonl", "{\"story\":\"a\"}\n{\"text\":\"x\",\"story\":\"b\"}\n")};
  EXPECT_EQ(load_corpus(stories, {.field = "story"}).text, "ab");
  const std::string talk = write("talk.jsonl", "{\"messages\":[]}\n");
  EXPECT_TRUE(refused([&] { load({talk}); }, talk + ":1", {"messages", "gpt finetune --task chat"}));
}

TEST_F(CorpusFiles, ErrorsSayWhatIsWrong) {
  EXPECT_TRUE(names(error_of([&] { load({folder_ + "/none.txt"}); }), {folder_ + "/none.txt"}));
  const std::string empty = write("empty.txt", "");
  EXPECT_TRUE(refused([&] { load({empty}); }, empty));
  fs::create_directories(folder_ + "/bare");
  EXPECT_TRUE(names(error_of([&] { load({folder_ + "/bare"}); }), {folder_ + "/bare", "`include`"}));
  write("hollow/a.txt", "");
  EXPECT_TRUE(names(error_of([&] { load({folder_ + "/hollow"}); }), {folder_ + "/hollow", 1}));
  EXPECT_ERROR(load({}), ErrorCode::invalid_argument);
  EXPECT_THROW(corpus_from_text("x", ""), Error);
  EXPECT_THROW(load({"/dev/null"}), Error);
}

TEST_F(CorpusFiles, CharTokenizerNamesTheInvalidFile) {
  const std::string good = write("good.txt", "abc");
  const std::string bad = write("bad.txt", "ab\xFFz");
  const Corpus corpus = load({good, bad});
  const Corpus* all[] = {&corpus};
  EXPECT_TRUE(refused([&] { open_tokenizer("char", all); }, bad, {2, "0xff"}));
  EXPECT_EQ(open_tokenizer("byte", all)->vocab_size(), 256);
  EXPECT_THROW(open_tokenizer(folder_ + "/missing.json", all), Error);
}

TEST(Corpus, WhatDoesNotFitIntoMemoryIsRefusedBefore) {
  if (available_memory() == 0) GTEST_SKIP() << "the system does not say how much memory is left";
  EXPECT_NO_THROW(require_memory("small", 1));
  EXPECT_THROW(require_memory("large", int64_t{1} << 60), Error);
}

TEST(Corpus, CharTokenizerCoversAllCorpora) {
  const Corpus train = corpus_from_text("train", "abc");
  const Corpus val = corpus_from_text("val", "xyz");
  const Corpus* both[] = {&train, &val};
  const Corpus* one[] = {&train};
  EXPECT_EQ(encode_corpus(val, *open_tokenizer("char", both)).size(), 3);
  EXPECT_TRUE(refused([&] { encode_corpus(val, *open_tokenizer("char", one)); }, "val", {"'x'"}));
}

TEST(Corpus, Stats) {
  const CorpusStats stats = corpus_stats(corpus_from_text("x",
                                                          "a\xC3\xA4\xC3\xB6"
                                                          "a"));
  EXPECT_EQ(stats.bytes, 6);
  EXPECT_EQ(stats.distinct_bytes, 4);
  EXPECT_EQ(stats.chars, 4);
  EXPECT_EQ(stats.distinct_chars, 3);
  EXPECT_EQ(corpus_stats(corpus_from_text("x", "a\xFF")).chars, std::nullopt);
}

// A tokenizer with ids of more than two bytes and tokens of several bytes.
class WideTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "wide"; }
  int64_t vocab_size() const override { return 70000; }
  std::vector<int32_t> encode(std::string_view text) const override {
    return {69999, static_cast<int32_t>(text.size())};
  }
  std::string token_bytes(int32_t id) const override { return std::string(static_cast<size_t>(id % 7), 'x'); }
  std::string to_json() const override { return "{}"; }
};

TEST(TokenData, KeepsWideAndNarrowIdsAndByteCounts) {
  const Corpus corpus = corpus_from_text("x", "abc");
  const TokenData wide = encode_corpus(corpus, WideTokenizer());
  EXPECT_EQ(wide.id(0), 69999);
  EXPECT_EQ(wide.id(1), 3);
  EXPECT_EQ(TokenSpan(wide).text_bytes(), 3);
  EXPECT_EQ(TokenSpan(wide).text_bytes(1, 1), 1);
  TokenData ids{WideTokenizer()};  // ids without a known text
  ids.append(std::vector<int32_t>{69999, 3});
  EXPECT_EQ(TokenSpan(ids).text_bytes(), 69999 % 7 + 3);
  EXPECT_EQ(TokenSpan(ids).text_bytes(1, 1), 3);
  const Corpus umlauts = corpus_from_text("x", "a\xC3\xA4\xC3\xB6");
  const TokenData narrow = encode_corpus(umlauts, *make_char_tokenizer(umlauts.text));
  EXPECT_EQ(narrow.size(), 3);
  EXPECT_EQ(TokenSpan(narrow).text_bytes(), 5);
  EXPECT_EQ(TokenSpan(narrow).text_bytes(1, 2), 4);
}

TEST(TokenData, RejectsIdsOutsideTheVocabulary) {
  TokenData data(*make_char_tokenizer("abc"));
  EXPECT_THROW(data.append(std::vector<int32_t>{0, 3}), Error);
  EXPECT_THROW(data.append(std::vector<int32_t>{-1}), Error);
  EXPECT_EQ(data.size(), 0);
}

TokenData bytes_of(int64_t n) {
  TokenData data(*make_byte_tokenizer());
  data.append(std::vector<int32_t>(static_cast<size_t>(n), 7));
  return data;
}

TEST(Split, CutsAtTheFloor) {
  const auto train = [](int64_t n, double fraction) {
    return split_tokens(bytes_of(n), fraction).train.size();
  };
  EXPECT_EQ(train(1115394, 0.1), 1003854);
  EXPECT_EQ(train(10, 0.9), 1);
  EXPECT_EQ(train(10, 0.7), 3);
  EXPECT_EQ(train(10, 0.25), 7);
  EXPECT_EQ(train(10, 0), 10);
  EXPECT_EQ(train(1, 0.5), 0);
  const TokenData data = bytes_of(11);
  const TokenSplit split = split_tokens(data, 0.5);
  EXPECT_EQ(split.train.size() + split.val.size(), 11);
  for (const double bad : {-0.1, 1.0, 2.0, std::nan("")})
    EXPECT_ERROR(split_tokens(data, bad), ErrorCode::invalid_argument);
}

TEST(Split, RequiresRoomForTheContextAndTheVocabulary) {
  const TokenData data = bytes_of(10);
  EXPECT_NO_THROW(require_context(TokenSpan(data), 9, "the training text"));
  EXPECT_TRUE(refused([&] { require_context(TokenSpan(data), 10, "corpus.txt"); }, "corpus.txt",
                      {"n_ctx + 1", 11, 10}));
  EXPECT_ERROR(require_context(TokenSpan(data), 0, "x"), ErrorCode::invalid_argument);
  EXPECT_THROW(require_context(TokenSpan(), 1, "x"), Error);
}

// These tokenizers change their input: capital letters, spaces and unknown characters.
TEST(TokenData, CountsTheBytesOfTheText) {
  const test::TempDir folder;
  const std::string text = "Hello, W\u00f6rld! It's (only) a TEST;  \"yes\", \u65e5no?\n";
  std::string rows;
  for (int i = 0; i < 3; ++i)
    rows += nlohmann::json{{"text", text}}.dump() + "\n";
  test::write_plain_file(folder.file("rows.jsonl"), rows);
  test::write_plain_file(folder.file("text.txt"), text);
  const auto bytes = static_cast<int64_t>(text.size());
  for (const char* file : {"gpt1.tokenizer.json", "spm.model", "bpe.tokenizer.json"}) {
    SCOPED_TRACE(file);
    const auto tokenizer = load_tokenizer(GPT_SOURCE_DIR "/tests/data/" + std::string(file));
    const std::string paths[] = {folder.file("rows.jsonl"), folder.file("text.txt")};
    const TokenData data = encode_corpus(load_corpus(paths), *tokenizer);
    const TokenSpan all(data);
    EXPECT_EQ(all.text_bytes(), 4 * bytes);
    // Adjacent ranges share no bytes and miss no bytes.
    for (int64_t cut = 0; cut <= all.size(); ++cut)
      EXPECT_EQ(all.text_bytes(0, cut) + all.text_bytes(cut, all.size() - cut), 4 * bytes) << cut;
    TokenData joined(*tokenizer);
    joined.append(all.part(0, 7));
    joined.append(all.part(7, all.size()));
    EXPECT_EQ(TokenSpan(joined).text_bytes(), 4 * bytes);
    // Shards may be cut at any token.
    ThreadPool pool(1);
    pack_tokens(*tokenizer, {.files = {paths[0], paths[1]}, .out = folder.file(file) + ".pack"}, pool);
    const TokenShard shard(folder.file(file) + ".pack/shard-00000.bin");
    EXPECT_EQ(shard.info().text_bytes, 4 * bytes);
    EXPECT_EQ(TokenSpan(map_shards({&shard, 1}, *tokenizer)).text_bytes(), 4 * bytes);
  }
}

TEST(Preview, ShowsCorpusSplitAndBatch) {
  const Corpus corpus = corpus_from_text("x", "one\ntwo\x1b" + std::string(300, 'q'));
  const std::string text = preview_corpus(corpus);
  EXPECT_TRUE(names(text.substr(0, text.find('\n')), {308, 1, 8}));
  EXPECT_NE(text.find("one\ntwo\\x1b" + std::string(192, 'q') + "\n"), std::string::npos) << text;
  EXPECT_EQ(text.find(std::string(193, 'q')), std::string::npos);

  const auto tokenizer = make_byte_tokenizer();
  const TokenData data = encode_corpus(corpus, *tokenizer);
  EXPECT_TRUE(names(preview_split(split_tokens(data, 0.25), *tokenizer), {231, 77, "byte", 256}));
  const int32_t ids[] = {'a', 'b', '\n', 'd'};
  const int32_t targets[] = {-1, '\n', 'd', 'e'};
  const auto shown = [&](int64_t rows, int64_t batch, int64_t n_ctx) {
    return preview_batch(*tokenizer, ids, targets, rows, batch, n_ctx);
  };
  EXPECT_TRUE(names(shown(1, 1, 4), {"x [1, 4]", "y [1, 4]", "int32", "x[0] \"ab\\nd\"", "97 98 10 100",
                                     "y[0] \"\\nde\"", "-1 10 100 101"}));
  // Shows the shape of the whole batch, even if only some rows are given.
  EXPECT_TRUE(names(shown(1, 64, 4), {"x [64, 4]", "y [64, 4]", "int32", "x[0]"}));
  EXPECT_TRUE(names(shown(2, 64, 2), {"x [64, 2]", "y [64, 2]", "int32", 2, "x[1]"}));
  const std::string pairs = preview_pairs(*tokenizer, ids, targets, 4);
  EXPECT_TRUE(names(pairs.substr(0, pairs.find('\n')), {4, "x[0]"}));
  EXPECT_EQ(pairs.substr(pairs.find('\n') + 1),
            "  position    0     1     2    3\n"
            "  x         \"a\"   \"b\"  \"\\n\"  \"d\"\n"
            "  id         97    98    10  100\n"
            "  y           -  \"\\n\"   \"d\"  \"e\"\n"
            "  id         -1    10   100  101\n");
}

}  // namespace
}  // namespace gpt
