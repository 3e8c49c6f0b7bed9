// Tests the files that tasks leave for a merge. Truncated files and files with impossible numbers are refused
// by name.

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "../fuzz/pack_targets.h"
#include "base/file.h"
#include "data/pack_task.h"
#include "data/word_tasks.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using nlohmann::json;
using test::refused;
using test::write_plain_file;

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

class TornWords : public testing::Test {
 protected:
  void SetUp() override {
    write_plain_file(text_, "a b a");
    options_ = {.files = {text_}, .pattern = "gpt4", .vocab_size = 300};
    WordCounter counter = empty_counter();
    for (const char* word : {"a", "b", "a"})
      counter.add_counted(word, 1);
    counter.add_counted_bytes(5);
    make_directories(task_folder(out_, {1, 1}));
    write_word_counts(out_, {1, 1}, options_, word_inputs(options_), counter);
  }

  WordCounter empty_counter() {
    return {[](std::string_view, WordSink&) {}, pool_};
  }
  void merge() {
    plan_word_merge(out_);
    WordCounter counter = empty_counter();
    add_word_counts(out_, counter);
  }
  void expect_refused(const std::string& bytes) {
    write_plain_file(words_, bytes);
    EXPECT_TRUE(refused([&] { merge(); }, words_));
  }
  // Returns a file with a correct checksum.
  std::string signed_file(const json& head, const std::string& words) const {
    std::string bytes = head.dump() + "\n" + words + std::string(kSumBytes, '\0');
    sign(bytes);
    return bytes;
  }
  json head() const {
    const std::string file = read_file(words_);
    return json::parse(file.substr(0, file.find('\n')));
  }

  ThreadPool pool_{1};
  test::TempDir folder_;
  std::string text_ = folder_.file("text.txt"), out_ = folder_.file("out");
  std::string words_ = task_folder(out_, {1, 1}) + "/words";
  WordTaskOptions options_;
};

TEST_F(TornWords, EveryCutAndEveryBitAreNoticed) {
  EXPECT_NO_THROW(merge());
  const std::string good = read_file(words_);
  for (size_t at = 0; at < good.size(); ++at) {
    expect_refused(good.substr(0, at));
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
    expect_refused(flipped);
    if (HasFailure()) return;
  }
}

TEST_F(TornWords, WordsOfAnotherTaskAndOfTextThatChangedAreRefused) {
  json other = head();
  other["task"] = "1/2";
  const std::string one = bytes_of(uint64_t{2}) + bytes_of(uint32_t{1}) + "a";
  write_plain_file(words_, signed_file(other, one));
  EXPECT_TRUE(refused([&] { merge(); }, words_, {"1/2"}));
  EXPECT_TRUE(refused([&] { has_word_counts(out_, {1, 1}, options_); }, words_, {"1/2"}));
  const std::string inputs = word_inputs(options_);
  write_plain_file(text_, "another text");
  const WordCounter counter = empty_counter();
  EXPECT_TRUE(refused(
      [&] {
        write_word_counts(out_, {1, 1}, options_, inputs, counter);
      },
      "task 1/1", {text_}));
}

TEST_F(TornWords, NumbersThatNoTaskWritesAreRefused) {
  const json good = head();
  const std::string one = bytes_of(uint64_t{2}) + bytes_of(uint32_t{1}) + "a";
  write_plain_file(words_, signed_file(good, one));
  EXPECT_NO_THROW(merge());
  for (const json& bytes : {json("5"), json(-5), json(5.5), json(INT64_MAX), json(nullptr)}) {
    json bad = good;
    bad["bytes"] = bytes;
    expect_refused(signed_file(bad, one));
  }
  for (const json& files : {json::array(), json("x"), json(7)}) {
    json bad = good;
    bad["inputs"]["files"] = files;
    expect_refused(signed_file(bad, one));
  }
  json huge = good;
  huge["inputs"]["vocab_size"] = 1.8e19;
  expect_refused(signed_file(huge, one));
  expect_refused(signed_file(good, bytes_of(uint64_t{0}) + bytes_of(uint32_t{1}) + "a"));
  expect_refused(signed_file(good, bytes_of(UINT64_MAX) + bytes_of(uint32_t{1}) + "a"));
  expect_refused(signed_file(good, bytes_of(uint64_t{1} << 50) + bytes_of(uint32_t{2}) + "ab"));
  expect_refused(signed_file(good, bytes_of(uint64_t{1}) + bytes_of(UINT32_MAX) + "a"));
  expect_refused(signed_file(good, one + "end"));
  std::string deep = std::string(100'000, '[') + "\n" + one + std::string(kSumBytes, '\0');
  sign(deep);
  expect_refused(deep);
}

class TornPieces : public testing::Test {
 protected:
  void SetUp() override {
    write_plain_file(folder_.file("text.txt"), "some text");
    options_ = {.files = {folder_.file("text.txt")}, .out = out_, .shard_tokens = 3000};
    ThreadPool pool(1);
    pack_task(*make_byte_tokenizer(), options_, {1, 1}, pool);
  }

  void merge() { merge_tasks(plan_merge(out_)); }
  std::string of_task(const std::string& name) const { return task_folder(out_, {1, 1}) + "/" + name; }

  test::TempDir folder_;
  std::string out_ = folder_.file("shards");
  PackOptions options_;
};

// These files have correct checksums.
TEST_F(TornPieces, BlocksOfNoTextAreRefused) {
  const std::string path = of_task(piece_index_name(0)), good = read_file(path);
  const auto with = [&](size_t word, uint64_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + word * sizeof value, &value, sizeof value);
    sign(bytes);
    write_plain_file(path, bytes);
    merge();
  };
  enum Word : size_t { kFile = 2, kNumber, kOffset, kLine, kEnd, kLast, kIds, kDocuments };
  using Case = std::pair<size_t, uint64_t>;
  for (const auto& [word, value] : {Case{kFile, 1},
                                    {kFile, uint64_t{1} << 40},
                                    {kFile, UINT64_MAX},
                                    {kNumber, INT64_MAX},
                                    {kOffset, 10},
                                    {kIds, 10},
                                    {kIds, UINT64_MAX},
                                    {kDocuments, 2},
                                    {kDocuments, UINT64_MAX}})
    EXPECT_TRUE(refused([&, at = word, put = value] { with(at, put); }, "task 1/1", {path}))
        << word << " " << value;
  EXPECT_NO_THROW(with(kFile, 0));
}

// A byte tokenizer has 256 tokens, and the text length of a token is looked up by its id.
TEST_F(TornPieces, IdsOfALargerVocabularyAreRefused) {
  constexpr size_t kVocabulary = 24, kHeader = 120;
  const std::string path = of_task(shard_file_name(0));
  std::string bytes = read_file(path);
  const uint64_t vocabulary = 65536;
  std::memcpy(bytes.data() + kVocabulary, &vocabulary, sizeof vocabulary);
  const uint64_t hash = XXH3_64bits(bytes.data(), kHeader);
  std::memcpy(bytes.data() + kHeader, &hash, sizeof hash);
  write_plain_file(path, bytes);
  EXPECT_TRUE(refused([&] { merge(); }, "task 1/1", {path, 256, 65536}));
}

TEST(TornPackState, NumbersThatNothingBoundsAreRefused) {
  const std::string good = read_file(GPT_SOURCE_DIR "/fuzz/corpus/pack_state/before-lists");
  EXPECT_EQ(parse_pack_state(good, "pack.json").shards, 2);
  for (const char* key : {"shards", "tokens", "text_bytes", "documents"}) {
    for (const json& value : {json(INT64_MAX), json(-1), json(2.0), json(1.8e19), json("2")}) {
      json bad = json::parse(good);
      bad[key] = value;
      EXPECT_TRUE(refused([&] { parse_pack_state(bad.dump(), "pack.json"); }, "pack.json"))
          << key << " " << value;
    }
  }
  const std::string deep = R"({"inputs":)" + std::string(1'000'000, '[');
  EXPECT_TRUE(refused([&] { parse_pack_state(deep, "pack.json"); }, "pack.json"));
}

}  // namespace
}  // namespace gpt
