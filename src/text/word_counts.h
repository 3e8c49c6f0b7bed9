#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"

namespace gpt {

// A hash table of strings with 64-bit counts. Uses open addressing and stores the bytes of all strings
// contiguously.
class CountTable {
 public:
  static uint64_t hash_of(std::string_view word);
  void add(std::string_view word, uint64_t hash, uint64_t count);

  int64_t size() const { return size_; }
  void clear();                     // keeps the allocated memory
  void drop_below(uint64_t least);  // removes words with a count below `least`

  // Calls f(word, hash, count) for every word, in no particular order.
  template <class F>
  void for_each(F&& f) const {
    for (const Slot& s : slots_) {
      if (s.count > 0) f(std::string_view(bytes_).substr(s.begin, s.length), s.hash, s.count);
    }
  }

 private:
  struct Slot {
    uint64_t hash = 0, count = 0, begin = 0;
    uint32_t length = 0;
  };
  Slot& find(std::string_view word, uint64_t hash);
  void grow();

  std::vector<Slot> slots_;
  std::string bytes_;
  int64_t size_ = 0;
};

// Receives the words of a text and counts them in several tables. The hash of a word selects the table.
class WordSink {
 public:
  static constexpr size_t kTables = 64;

  WordSink() : tables_(kTables) {}
  void add(std::string_view word) {
    const uint64_t hash = CountTable::hash_of(word);
    tables_[hash % kTables].add(word, hash, 1);
    ++total_;
  }

 private:
  friend class WordCounter;
  std::vector<CountTable> tables_;
  int64_t total_ = 0;
};

// A function that adds the words of a text to a sink. Several threads may call the function at the same time.
// Cutting a text at a safe position of text_cut.h must not change its words.
using WordSplitter = std::function<void(std::string_view text, WordSink& sink)>;

struct WordCountOptions {
  // If there are more distinct words than this, the rarest half of the words is dropped. A word takes about
  // 50 bytes.
  int64_t max_words = int64_t{16} << 20;
};

// Counts the words of texts of any length with all threads. The counts only depend on the texts. The memory
// holds two batches of 64 MiB of text, the distinct words of all texts, and, for every thread, the distinct
// words of one batch.
class WordCounter {
 public:
  // Throws invalid_argument if `max_words` is below 1000.
  WordCounter(WordSplitter splitter, ThreadPool& pool, WordCountOptions options = {});

  // Adds the next part of a document. A part may end anywhere. Words longer than 16 MiB may be cut.
  void add(std::string_view text);
  // Adds the results of another counter: the count of a word, or a number of bytes.
  void add_counted(std::string_view word, uint64_t count);
  void add_counted_bytes(int64_t bytes) { bytes_ += bytes; }
  void end_document();  // words do not continue in the next document
  void finish();        // completes the results; nothing may be added afterwards

  struct Word {
    std::string_view text;  // valid during the lifetime of the counter
    uint64_t count;
  };
  std::vector<Word> words() const;  // in no particular order

  int64_t bytes() const { return bytes_; }                   // number of bytes in all texts
  int64_t total() const { return total_; }                   // number of words, including repetitions
  uint64_t dropped_below() const { return dropped_below_; }  // words with smaller counts may be missing

 private:
  void count_batch(bool all);
  std::vector<std::string_view> cut_into_parts(bool all, size_t& done) const;
  void gather();
  void drop_rare();

  WordSplitter splitter_;
  ThreadPool& pool_;
  WordCountOptions options_;
  std::string text_;                   // text that is not counted yet
  std::vector<size_t> document_ends_;  // positions in text_
  std::vector<CountTable> all_;
  std::vector<WordSink> sinks_;  // by thread
  int64_t bytes_ = 0, total_ = 0;
  uint64_t dropped_below_ = 0;
};

}  // namespace gpt
