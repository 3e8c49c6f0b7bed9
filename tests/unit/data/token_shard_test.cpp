#include "data/token_shard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"
#include "data/pack.h"
#include "data/shard_set.h"
#include "data/text_blocks.h"
#include "data/token_data.h"
#include "support/compress.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using test::error_of;
using test::Fact;
using test::names;
using test::refused;
using test::TempDir;
using test::write_plain_file;
using Ids = std::vector<int32_t>;

ShardInfo byte_info(ShardFormat format = ShardFormat::gpt, int width = 2) {
  return {.format = format,
          .bytes_per_id = width,
          .vocab_size = 256,
          .vocab_hash = vocabulary_hash(*make_byte_tokenizer())};
}

void write_shard(const std::string& path, const Ids& ids, const ShardInfo& info, int64_t no_text = 0) {
  ShardWriter writer(path, info);
  writer.write(std::span(ids).first(ids.size() / 2));
  writer.write(std::span(ids).subspan(ids.size() / 2));
  writer.add_text(std::ssize(ids) - no_text, 3);
  writer.complete();
  writer.publish();
}

Ids all_ids(const TokenData& data) {
  Ids ids(static_cast<size_t>(data.size()));
  data.copy(0, data.size(), ids.data());
  return ids;
}

TEST(TokenShard, KeepsWhatWasWritten) {
  const TempDir folder;
  const Ids ids = {0, 1, 255, 7, 7};
  const auto tokenizer = make_byte_tokenizer();
  for (const ShardFormat format : {ShardFormat::gpt, ShardFormat::llmc}) {
    for (const int width : {2, 4}) {
      const std::string path = folder.file("a.bin");
      write_shard(path, ids, byte_info(format, width));
      EXPECT_TRUE(is_token_shard(path));
      const TokenShard shard(path);
      EXPECT_EQ(shard.info().count, 5);
      EXPECT_EQ(shard.info().bytes_per_id, width);
      EXPECT_EQ(shard.info().format, format);
      EXPECT_EQ(shard.info().documents, format == ShardFormat::gpt ? 3 : 0);
      shard.verify();
      TokenData data(*tokenizer);
      data.append(shard);
      EXPECT_EQ(all_ids(data), ids);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder.file("a.bin.tmp")));
}

// The layout that the dataloader of llm.c reads: 256 int32, then two bytes per id.
TEST(TokenShard, LlmcLayout) {
  const TempDir folder;
  write_shard(folder.file("a.bin"), {1, 2, 3}, byte_info(ShardFormat::llmc));
  const std::string bytes = read_file(folder.file("a.bin"));
  ASSERT_EQ(bytes.size(), 1024u + 6);
  int32_t header[3];
  std::memcpy(header, bytes.data(), sizeof header);
  EXPECT_EQ(header[0], 20240520);
  EXPECT_EQ(header[1], 1);
  EXPECT_EQ(header[2], 3);
  EXPECT_EQ(bytes.substr(1024), std::string("\1\0\2\0\3\0", 6));
}

TEST(TokenShard, AnInterruptedWriteLeavesNothing) {
  const TempDir folder;
  {
    ShardWriter writer(folder.file("a.bin"), byte_info());
    writer.write(Ids{1, 2, 3});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Writing must not use a temporary name that a file of the user might already have.
TEST(TokenShard, WritingTouchesNoOtherFile) {
  const TempDir folder;
  write_plain_file(folder.file("a.bin.tmp"), "notes");
  write_shard(folder.file("a.bin"), Ids{1, 2, 3}, byte_info());
  EXPECT_EQ(read_file(folder.file("a.bin.tmp")), "notes");
  EXPECT_EQ(std::ranges::distance(std::filesystem::directory_iterator(folder.path())), 2);
}

class DamagedShard : public testing::Test {
 protected:
  void SetUp() override {
    write_shard(folder_.file("good.bin"), Ids(1000, 65), byte_info());
    good_ = read_file(folder_.file("good.bin"));
  }
  void expect(const std::string& bytes, std::initializer_list<Fact> facts = {}) {
    write_plain_file(bad_, bytes);
    const std::string message = error_of([&] { TokenShard(bad_).verify(); });
    EXPECT_TRUE(names(message, {bad_}));
    EXPECT_TRUE(names(message, facts));
  }

  TempDir folder_;
  std::string bad_ = folder_.file("bad.bin");
  std::string good_;
};

TEST_F(DamagedShard, EveryCutAndEveryFlippedByteIsFound) {
  for (size_t n = 0; n < good_.size(); n += n < 200 ? 1 : 97)
    expect(good_.substr(0, n));
  for (size_t at = 0; at < good_.size(); at += at < 200 ? 1 : 97) {
    std::string bad = good_;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    expect(bad);
  }
  expect(good_ + "x", {1000, 2001});
}

TEST_F(DamagedShard, CountsThatDoNotFitTheFile) {
  std::string llmc(1024, '\0');
  const int32_t header[] = {20240520, 1, -1};
  std::memcpy(llmc.data(), header, sizeof header);
  expect(llmc, {-1});
  const int32_t huge[] = {20240520, 1, INT32_MAX};
  std::memcpy(llmc.data(), huge, sizeof huge);
  expect(llmc, {INT32_MAX, 0});
  const int32_t version[] = {20240520, 2, 0};
  std::memcpy(llmc.data(), version, sizeof version);
  expect(llmc, {"llm.c", 1, 1024});
  for (const char* bytes : {"GPTTOKEN", ""})
    expect(bytes, {"llm.c"});
}

TEST(TokenShard, OtherVocabulariesAreRefused) {
  const TempDir folder;
  write_shard(folder.file("a.bin"), {1, 2}, byte_info());
  const auto other = make_char_tokenizer("abc");
  TokenData data(*other);
  EXPECT_TRUE(refused([&] { data.append(TokenShard(folder.file("a.bin"))); }, folder.file("a.bin"),
                      {256, 3, "`tokenizer`"}));
  // Shards of llm.c do not record the vocabulary size, so ids are checked when they are read.
  write_shard(folder.file("b.bin"), {1, 2, 200}, byte_info(ShardFormat::llmc));
  data.append(TokenShard(folder.file("b.bin")));
  EXPECT_EQ(data.id(1), 2);
  EXPECT_TRUE(names(error_of([&] { data.id(2); }), {folder.file("b.bin"), 200, 2}));
}

TEST(TokenData, JoinsTextShardsAndParts) {
  const TempDir folder;
  const auto tokenizer = make_byte_tokenizer();
  write_shard(folder.file("a.bin"), {10, 11, 12}, byte_info());
  write_shard(folder.file("b.bin"), {20, 21}, byte_info(ShardFormat::gpt, 4));
  TokenData data(*tokenizer);
  data.append(Ids{1, 2});
  data.append(Ids{3});
  data.append(TokenShard(folder.file("a.bin")));
  data.append(Ids{4});
  data.append(TokenShard(folder.file("b.bin")));
  EXPECT_EQ(all_ids(data), (Ids{1, 2, 3, 10, 11, 12, 4, 20, 21}));
  EXPECT_EQ(TokenSpan(data).text_bytes(), 9);
  TokenData joined(*tokenizer);
  joined.append(TokenSpan(data).part(2, 5));
  joined.append(TokenSpan(data).part(0, 0));
  joined.append(TokenSpan(data).part(6, 8));
  EXPECT_EQ(all_ids(joined), (Ids{3, 10, 11, 4, 20}));
  for (int64_t i = 0; i < joined.size(); ++i)
    EXPECT_EQ(joined.id(i), all_ids(joined)[static_cast<size_t>(i)]);
}

TEST(TokenData, TheTokenBetweenDocumentsIsNoText) {
  const TempDir folder;
  ShardInfo info = byte_info();
  info.document_token = 0;
  write_shard(folder.file("a.bin"), {0, 65, 66, 0, 67}, info, 2);
  const TokenShard shards[] = {TokenShard(folder.file("a.bin"))};
  const TokenData data = map_shards(shards, *make_byte_tokenizer());
  EXPECT_EQ(TokenSpan(data).text_bytes(), 3);
  EXPECT_EQ(TokenSpan(data).text_bytes(0, 1), 0);
  EXPECT_EQ(TokenSpan(data).text_bytes(3, 2), 1);
}

// A folder of text in all formats that packing supports.
class Pack : public testing::Test {
 protected:
  void SetUp() override {
    RandomStream random(5, RandomSite::test);
    std::string lines;
    for (int i = 0; i < 60; ++i) {
      std::string text(random.below(300), 'a');
      for (char& c : text)
        c = static_cast<char>('a' + random.below(26));
      lines += "{\"text\":\"" + text + "\"}\n";
      if (text.empty()) continue;
      expected_.push_back(0);
      expected_.insert(expected_.end(), text.begin(), text.end());
    }
    write_plain_file(folder_.file("a.jsonl"), lines);
    write_plain_file(folder_.file("b.jsonl.gz"), test::gzip(lines));
    write_plain_file(folder_.file("c.jsonl.zst"), test::zstd(lines));
    const Ids once = expected_;
    for (int i = 0; i < 2; ++i)
      expected_.insert(expected_.end(), once.begin(), once.end());
    write_plain_file(folder_.file("d.txt"), "plain text");
    const Ids text = {0, 'p', 'l', 'a', 'i', 'n', ' ', 't', 'e', 'x', 't'};
    expected_.insert(expected_.end(), text.begin(), text.end());
  }

  PackStats pack(const std::string& out, int threads, bool restart = false, int64_t shard_tokens = 1000) {
    ThreadPool pool(threads);
    return pack_tokens(*make_byte_tokenizer(),
                       {.files = find_text_files({folder_.path()}).files,
                        .out = out,
                        .shard_tokens = shard_tokens,
                        .document_token = 0,
                        .block_bytes = 700,
                        .restart = restart},
                       pool);
  }
  Ids packed(const std::string& out) {
    return all_ids(map_shards(open_shard_set(out).shards, *make_byte_tokenizer()));
  }

  TempDir folder_, other_;
  Ids expected_;  // documents are preceded by token 0
};

TEST_F(Pack, EncodesEveryDocumentInOrder) {
  const std::string out = other_.file("shards");
  const PackStats stats = pack(out, 3);
  EXPECT_EQ(packed(out), expected_);
  EXPECT_EQ(stats.tokens, std::ssize(expected_));
  EXPECT_EQ(stats.documents, std::ranges::count(expected_, 0));
  EXPECT_EQ(stats.text_bytes, stats.tokens - stats.documents);
  const ShardSet set = open_shard_set(out);
  EXPECT_EQ(std::ssize(set.shards), stats.shards);
  int64_t documents = 0;
  for (const TokenShard& shard : set.shards) {
    shard.verify();
    EXPECT_TRUE(shard.name() == set.shards.back().name() || shard.info().count == 1000);
    documents += shard.info().documents;
  }
  EXPECT_EQ(documents, stats.documents);
  EXPECT_TRUE(std::filesystem::exists(out + "/tokenizer.json"));
}

TEST_F(Pack, OneFileIsTheSame) {
  const PackStats stats = pack(other_.file("one.bin"), 2);
  EXPECT_EQ(packed(other_.file("one.bin")), expected_);
  EXPECT_EQ(stats.shards, 1);
}

TEST_F(Pack, GoesOnAfterEveryShard) {
  const std::string whole = other_.file("whole"), out = other_.file("again");
  const PackStats all = pack(whole, 1);
  const auto contents = [](const std::string& folder) {
    std::string text;
    for (const TokenShard& shard : open_shard_set(folder).shards)
      text += read_file(shard.name());
    return text;
  };
  // Simulates a kill: the folder has the first shards and the state after the last complete shard.
  for (int64_t keep = 0; keep < all.shards; keep += 6) {
    std::filesystem::remove_all(out);
    ThreadPool pool(1);
    int64_t done = -1;
    struct Stop {};
    try {
      pack_tokens(*make_byte_tokenizer(),
                  {.files = find_text_files({folder_.path()}).files,
                   .out = out,
                   .shard_tokens = 1000,
                   .document_token = 0,
                   .block_bytes = 700},
                  pool, [&](const PackProgress& p) {
                    done = p.stats.shards;
                    if (done >= keep) throw Stop{};
                  });
    } catch (const Stop&) {
      EXPECT_TRUE(refused([&] { open_shard_set(out); }, out));
    }
    const PackStats rest = pack(out, 2);
    EXPECT_EQ(rest.shards, all.shards);
    EXPECT_EQ(rest.tokens, all.tokens);
    EXPECT_EQ(rest.documents, all.documents);
    EXPECT_EQ(contents(out), contents(whole));
  }
  EXPECT_EQ(pack(out, 1).shards_before, all.shards);  // nothing left to do
}

TEST_F(Pack, RefusesFoldersOfSomethingElse) {
  const std::string out = other_.file("shards");
  pack(out, 1);
  EXPECT_TRUE(refused([&] { pack(out, 1, false, 2000); }, out, {"`restart`"}));
  EXPECT_NO_THROW(pack(out, 1, true, 2000));
  EXPECT_EQ(packed(out), expected_);
  write_plain_file(out + "/pack.json", "{");
  EXPECT_TRUE(refused([&] { pack(out, 1); }, out, {"`restart`"}));
  std::filesystem::remove(out + "/pack.json");
  EXPECT_TRUE(refused([&] { pack(out, 1); }, out, {"`restart`"}));
  EXPECT_TRUE(refused([&] { pack(out, 1, false, 10); }, "shard_tokens", {10}));
}

// Files that packing has not written are kept, with and without --restart. A refused pack leaves no files.
TEST_F(Pack, KeepsFilesOfOthers) {
  namespace fs = std::filesystem;
  const auto keeps = [&](const std::string& file, const std::string& object,
                         std::initializer_list<Fact> facts) {
    const std::string bytes = read_file(file);
    for (const bool restart : {false, true})
      EXPECT_TRUE(refused([&] { pack(fs::path(file).parent_path(), 1, restart); }, object, facts));
    EXPECT_EQ(read_file(file), bytes);
  };
  const std::string llmc = other_.file("llmc"), model = other_.file("model"), text = other_.file("text");
  for (const std::string& folder : {llmc, model, text})
    fs::create_directories(folder);
  ShardInfo info = byte_info();
  info.format = ShardFormat::llmc;
  write_shard(llmc + "/fineweb_train_000000.bin", Ids(10, 65), info);
  keeps(llmc + "/fineweb_train_000000.bin", llmc, {"fineweb_train_000000.bin"});
  EXPECT_FALSE(fs::exists(llmc + "/tokenizer.json"));
  write_plain_file(model + "/config.json", "{}");
  write_plain_file(model + "/model.safetensors", "weights");
  keeps(model + "/model.safetensors", model, {"`out`"});
  write_plain_file(text + "/shard-weights.bin", "weights");
  keeps(text + "/shard-weights.bin", text, {"shard-weights.bin"});
  fs::rename(text + "/shard-weights.bin", text + "/shard-00000.bin");
  keeps(text + "/shard-00000.bin", text, {"shard-00000.bin"});
  fs::remove(text + "/shard-00000.bin");
  write_plain_file(text + "/tokenizer.json", make_char_tokenizer("ab")->to_json());
  keeps(text + "/tokenizer.json", text + "/tokenizer.json", {"`tokenizer`"});
  EXPECT_FALSE(fs::exists(text + "/pack.json"));
  // An equivalent tokenizer file is kept unchanged.
  const std::string equal = make_byte_tokenizer()->to_json() + "\n \n";
  write_plain_file(text + "/tokenizer.json", equal);
  pack(text, 1);
  EXPECT_EQ(read_file(text + "/tokenizer.json"), equal);
  EXPECT_EQ(packed(text), expected_);
  ThreadPool pool(1);
  const PackOptions chars{.files = {folder_.file("d.txt")}, .out = text, .restart = true};
  for (int n = 0; n < 2; ++n) {
    EXPECT_TRUE(refused([&] { pack_tokens(*make_char_tokenizer("a ceilnptx"), chars, pool); },
                        text + "/tokenizer.json", {"`out`"}));
    EXPECT_EQ(read_file(text + "/tokenizer.json"), equal);
    pack(text, 1, true, 2000);  // a new pack state still protects the file
  }
  write_plain_file(other_.file("model.bin"), "weights");
  for (const bool restart : {false, true})
    EXPECT_TRUE(refused([&] { pack(other_.file("model.bin"), 1, restart); }, other_.file("model.bin")));
}

// If a text cannot be encoded, a new folder stays empty, and the shards of an existing pack stay in place.
TEST_F(Pack, ARefusedPackWritesNothing) {
  const std::string out = other_.file("shards"), old = other_.file("old");
  pack(old, 1);
  write_plain_file(folder_.file("0.jsonl"), "{\"txt\":1}\n");
  EXPECT_TRUE(refused([&] { pack(out, 1); }, folder_.file("0.jsonl:1")));
  EXPECT_TRUE(std::filesystem::is_empty(out));
  EXPECT_TRUE(refused([&] { pack(old, 1, true, 2000); }, folder_.file("0.jsonl:1")));
  EXPECT_EQ(packed(old), expected_);
}

TEST_F(Pack, BadTextIsNamedAndWholeShardsStay) {
  write_plain_file(folder_.file("e.jsonl"), "{\"text\":\"good\"}\n{\"txt\":1}\n");
  const std::string out = other_.file("shards");
  EXPECT_TRUE(refused([&] { pack(out, 2); }, folder_.file("e.jsonl:2")));
  for (const auto& entry : std::filesystem::directory_iterator(out)) {
    if (is_token_shard(entry.path().string())) TokenShard(entry.path().string()).verify();
  }
}

}  // namespace
}  // namespace gpt
