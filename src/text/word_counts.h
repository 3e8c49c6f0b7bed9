#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"

namespace gpt {

// Strings with 64-bit counts: a hash table with open addresses, the bytes of all strings in one place.
class CountTable {
 public:
  static uint64_t hash_of(std::string_view word);
  void add(std::string_view word, uint64_t hash, uint64_t count);

  int64_t size() const { return size_; }
  void clear();                     // keeps the memory
  void drop_below(uint64_t least);  // forgets words with smaller counts

  // f(word, hash, count) for every word, in no particular order.
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

// Receives words of a text, counted in tables by hash.
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

// Gives the words of a text to a sink. Called by several threads at a time. What it does must not change when
// a text is cut at the places of text_cut.h.
using WordSplitter = std::function<void(std::string_view text, WordSink& sink)>;

struct WordCountOptions {
  // When there are more distinct words than this, the rarest half is forgotten. A word takes about 50 bytes.
  int64_t max_words = int64_t{16} << 20;
};

// Counts the words of texts of any length with all threads. The counts depend on the texts alone. Memory: two
// batches of 64 MiB of text, the distinct words, and those of a batch once more for every thread.
class WordCounter {
 public:
  // Throws invalid_argument for a max_words below 1000.
  WordCounter(WordSplitter splitter, ThreadPool& pool, WordCountOptions options = {});

  // The next part of a document, which may end anywhere. Words longer than 16 MiB may be cut.
  void add(std::string_view text);
  // A word and bytes of text that were counted elsewhere.
  void add_counted(std::string_view word, uint64_t count);
  void add_counted_bytes(int64_t bytes) { bytes_ += bytes; }
  void end_document();  // no word goes on in the next document
  void finish();        // after this the results are complete, and nothing may be added

  struct Word {
    std::string_view text;  // valid as long as the counter
    uint64_t count;
  };
  std::vector<Word> words() const;  // in no particular order

  int64_t bytes() const { return bytes_; }                   // of all texts
  int64_t total() const { return total_; }                   // words, each as often as it occurred
  uint64_t dropped_below() const { return dropped_below_; }  // words rarer than this may be missing

 private:
  void count_batch(bool all);
  std::vector<std::string_view> cut_into_parts(bool all, size_t& done) const;
  void gather();
  void drop_rare();

  WordSplitter splitter_;
  ThreadPool& pool_;
  WordCountOptions options_;
  std::string text_;                   // not counted yet
  std::vector<size_t> document_ends_;  // in text_
  std::vector<CountTable> all_;
  std::vector<WordSink> sinks_;  // by thread
  int64_t bytes_ = 0, total_ = 0;
  uint64_t dropped_below_ = 0;
};

}  // namespace gpt
