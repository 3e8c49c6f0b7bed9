#include "text/word_counts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "base/error.h"
#include "base/ranges.h"
#include "text/parallel_encode.h"
#include "text/text_cut.h"

namespace gpt {
namespace {

constexpr size_t kBatchBytes = size_t{64} << 20;
constexpr size_t kPartBytes = size_t{256} << 10;
constexpr size_t kMaxWordBytes = size_t{16} << 20;

// Returns the end of the part that begins at `begin`. Returns `begin` if more text is needed to determine the
// end.
size_t part_end(std::string_view text, size_t begin, bool complete) {
  for (size_t size = kPartBytes; size < text.size() - begin; size *= 2) {
    const size_t cut = last_safe_cut(text, begin, begin + size);
    if (cut > begin) return cut;
    if (size >= kMaxWordBytes) return last_cut(text, begin, begin + size);
  }
  return complete ? text.size() : last_safe_cut(text, begin, text.size());
}

}  // namespace

uint64_t CountTable::hash_of(std::string_view word) {
  return XXH3_64bits(word.data(), word.size());
}

CountTable::Slot& CountTable::find(std::string_view word, uint64_t hash) {
  size_t at = (hash >> 8) & (slots_.size() - 1);  // the lowest bits are equal for all words of a table
  for (;; at = (at + 1) & (slots_.size() - 1)) {
    Slot& s = slots_[at];
    if (s.count == 0) return s;
    if (s.hash == hash && s.length == word.size() &&
        word == std::string_view(bytes_).substr(s.begin, s.length))
      return s;
  }
}

void CountTable::add(std::string_view word, uint64_t hash, uint64_t count) {
  if (2 * static_cast<size_t>(size_ + 1) > slots_.size()) grow();
  Slot& slot = find(word, hash);
  if (slot.count == 0) {
    slot = {hash, 0, bytes_.size(), static_cast<uint32_t>(word.size())};
    bytes_.append(word);
    ++size_;
  }
  slot.count += count;
}

void CountTable::grow() {
  std::vector<Slot> old(std::max<size_t>(256, 2 * slots_.size()));
  old.swap(slots_);
  for (const Slot& s : old) {
    if (s.count == 0) continue;
    size_t at = (s.hash >> 8) & (slots_.size() - 1);
    while (slots_[at].count > 0)
      at = (at + 1) & (slots_.size() - 1);
    slots_[at] = s;
  }
}

void CountTable::clear() {
  std::ranges::fill(slots_, Slot{});
  bytes_.clear();
  size_ = 0;
}

void CountTable::drop_below(uint64_t least) {
  CountTable kept;
  for_each([&](std::string_view word, uint64_t hash, uint64_t count) {
    if (count >= least) kept.add(word, hash, count);
  });
  *this = std::move(kept);
}

WordCounter::WordCounter(WordSplitter splitter, ThreadPool& pool, WordCountOptions options)
    : splitter_(std::move(splitter)),
      pool_(pool),
      options_(options),
      all_(WordSink::kTables),
      sinks_(static_cast<size_t>(pool.size())) {
  if (options.max_words < 1000)
    fail_usage("max_words: expected at least 1000 distinct words, found {}", options.max_words);
}

void WordCounter::add(std::string_view text) {
  bytes_ += std::ssize(text);
  while (!text.empty()) {
    const size_t n = std::min(text.size(), kBatchBytes - text_.size());
    text_.append(text.substr(0, n));
    text.remove_prefix(n);
    if (text_.size() == kBatchBytes) count_batch(false);
  }
}

void WordCounter::add_counted(std::string_view word, uint64_t count) {
  const uint64_t hash = CountTable::hash_of(word);
  all_[hash % WordSink::kTables].add(word, hash, count);
  total_ += static_cast<int64_t>(count);
}

void WordCounter::end_document() {
  document_ends_.push_back(text_.size());
}

void WordCounter::finish() {
  end_document();
  count_batch(true);
  std::string().swap(text_);
  sinks_.clear();
}

// Cuts the buffered text into parts that can be counted without the following text. Sets `done` to the end of
// the last part.
std::vector<std::string_view> WordCounter::cut_into_parts(bool all, size_t& done) const {
  std::vector<std::string_view> parts;
  done = 0;
  for (size_t i = 0; i <= document_ends_.size(); ++i) {
    const bool complete = i < document_ends_.size();
    const std::string_view document =
        std::string_view(text_).substr(0, complete ? document_ends_[i] : text_.size());
    while (done < document.size()) {
      const size_t end = part_end(document, done, complete || all);
      if (end == done) break;
      parts.push_back(document.substr(done, end - done));
      done = end;
    }
  }
  return parts;
}

void WordCounter::count_batch(bool all) {
  size_t done = 0;
  const std::vector<std::string_view> parts = cut_into_parts(all, done);
  detail::parallel_try(std::ssize(parts), pool_,
                       [&](size_t part, size_t thread) { splitter_(parts[part], sinks_[thread]); });
  text_.erase(0, done);
  document_ends_.clear();
  gather();
  drop_rare();
}

void WordCounter::gather() {
  pool_.parallel_for(std::ssize(all_), [&](int64_t table, int) {
    const auto t = static_cast<size_t>(table);
    for (WordSink& sink : sinks_) {
      if (all_[t].size() == 0) {
        std::swap(all_[t], sink.tables_[t]);
        continue;
      }
      sink.tables_[t].for_each(
          [&](std::string_view word, uint64_t hash, uint64_t count) { all_[t].add(word, hash, count); });
      sink.tables_[t].clear();
    }
  });
  for (WordSink& sink : sinks_) {
    total_ += sink.total_;
    sink.total_ = 0;
  }
}

void WordCounter::drop_rare() {
  if (sum_of(all_, &CountTable::size) <= options_.max_words) return;
  std::vector<uint64_t> counts;
  for (const CountTable& table : all_)
    table.for_each([&](std::string_view, uint64_t, uint64_t count) { counts.push_back(count); });
  const auto middle = counts.end() - options_.max_words / 2;
  std::nth_element(counts.begin(), middle, counts.end());
  const uint64_t least = *middle + 1;
  for (CountTable& table : all_)
    table.drop_below(least);
  dropped_below_ = std::max(dropped_below_, least);
}

std::vector<WordCounter::Word> WordCounter::words() const {
  std::vector<Word> words;
  for (const CountTable& table : all_)
    table.for_each([&](std::string_view word, uint64_t, uint64_t count) { words.push_back({word, count}); });
  return words;
}

}  // namespace gpt
