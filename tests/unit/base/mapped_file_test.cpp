// Tests memory-mapped files whose pages are promoted to huge pages while other threads read them.

#include "base/mapped_file.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "base/thread_pool.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

constexpr size_t kWords = 9 * kLargePage / sizeof(uint64_t) + 77;

uint64_t word_at(size_t i) {
  return 0x9e3779b97f4a7c15u * (i + 1);
}

// A memory-mapped file with known words.
class Words {
 public:
  Words() {
    std::vector<uint64_t> words(kWords);
    for (size_t i = 0; i < kWords; ++i)
      words[i] = word_at(i);
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(kWords * 8));
  }
  const std::string& path() const { return path_; }

 private:
  test::TempDir dir_;
  std::string path_ = dir_.path() + "/words";
};

// Reads one word of each 4 KiB page, at an offset that depends on `first`. Returns the number of wrong words.
size_t wrong_words(const MappedFile& file, size_t first) {
  size_t wrong = 0;
  for (size_t i = first % 512; i < kWords; i += 512) {
    uint64_t word = 0;
    std::memcpy(&word, file.bytes().data() + i * 8, 8);
    wrong += word != word_at(i);
  }
  return wrong;
}

TEST(MappedFile, MovesToLargePagesWhileOthersRead) {
  const Words words;
  const MappedFile file(words.path());
  ThreadPool pool(2);
  std::atomic<bool> over = false;
  std::atomic<size_t> wrong = 0, rounds = 0;
  std::thread reader([&] {
    for (size_t i = 0; !over || rounds < 3; ++i, ++rounds)
      wrong += wrong_words(file, i);
  });
  for (size_t at = 0; at < file.bytes().size(); at += 3 * kLargePage / 2) {
    const size_t n = std::min(3 * kLargePage / 2, file.bytes().size() - at);
    EXPECT_TRUE(file.move_to_large_pages(pool, file.bytes().subspan(at, n)));
  }
  over = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
  for (size_t i = 0; i < 512; ++i)
    ASSERT_EQ(wrong_words(file, i), 0u);
}

// Data that was moved to huge pages is a copy. The copy does not change with the file and is not released.
TEST(MappedFile, KeepsWhatWasMoved) {
  const Words words;
  const MappedFile file(words.path());
  ThreadPool pool(1);
  ASSERT_TRUE(file.move_to_large_pages(pool, file.bytes()));
  file.release(file.bytes());
  EXPECT_EQ(wrong_words(file, 0), 0u);
  std::fstream(words.path(), std::ios::binary | std::ios::in | std::ios::out)
      .seekp(4 * kLargePage)
      .write("changed!", 8);
  uint64_t word = 0;
  std::memcpy(&word, file.bytes().data() + 4 * kLargePage, 8);
  EXPECT_EQ(word, word_at(4 * kLargePage / 8));
}

TEST(MappedFile, LeavesShortPartsWhereTheyAre) {
  const Words words;
  const MappedFile file(words.path());
  ThreadPool pool(1);
  EXPECT_TRUE(file.move_to_large_pages(pool, file.bytes().first(0)));
  EXPECT_TRUE(file.move_to_large_pages(pool, file.bytes().subspan(5, kLargePage - 1)));
  EXPECT_EQ(wrong_words(file, 3), 0u);
}

TEST(MappedFile, CountsLargePages) {
  if (const std::string why = no_large_pages_because(); !why.empty()) GTEST_SKIP() << why;
  const Words words;
  const MappedFile file(words.path());
  EXPECT_EQ(wrong_words(file, 0), 0u);  // the pages must be resident to be counted
  ThreadPool pool(1);
  ASSERT_TRUE(file.move_to_large_pages(pool, file.bytes()));
  const std::span<const std::byte> all[] = {file.bytes()}, last[] = {file.bytes().last(1)};
  const int64_t large = bytes_in_large_pages(all);
  EXPECT_LE(large, static_cast<int64_t>(file.bytes().size()));
  if (large == 0) GTEST_SKIP() << "the system has no large page left";
  EXPECT_EQ(large % static_cast<int64_t>(kLargePage), 0);
  EXPECT_EQ(bytes_in_large_pages(last), 0) << "which was not moved, for it fills no large page";
}

}  // namespace
}  // namespace gpt
