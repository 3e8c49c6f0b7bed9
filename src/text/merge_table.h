#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gpt {

// Maps a pair of adjacent symbols to the merged symbol and the rank of the merge. All byte-pair encodings use
// this table, for bytes and for characters.
class MergeTable {
 public:
  static constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();

  struct Entry {
    int32_t rank = kNoRank;
    int32_t result = -1;
  };

  // Reserves space for `pairs` pairs. The table grows if it needs more space.
  explicit MergeTable(size_t pairs = 0);

  // Adds a merge. The rank must be >= 0, and a symbol may be any number except -1. If a pair is added twice,
  // the first merge is kept.
  void add(int32_t left, int32_t right, Entry entry);

  // Returns the merge of a pair. The rank is kNoRank if the pair cannot be merged.
  Entry find(int32_t left, int32_t right) const {
    if (is_low(left, right)) return low_[low_index(left, right)];
    const uint64_t pair = pair_of(left, right);
    for (size_t at = hash_of(pair) & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].pair == pair) return slots_[at].entry;
      if (slots_[at].pair == kEmpty) return {};
    }
  }

  // Merges the symbols from index `from` on. Merges the pair of adjacent symbols with the lowest rank until
  // no pair can be merged. If the pair occurs several times, its first occurrence is merged first. O(n log
  // n).
  void merge(std::vector<int32_t>& symbols, size_t from) const;

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  // Open addressing. A cache line holds four slots.
  struct Slot {
    uint64_t pair = kEmpty;
    Entry entry;
  };
  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  static size_t hash_of(uint64_t pair) { return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> 20); }

  // Most lookups are for pairs of byte tokens. Byte tokens usually have the lowest ids.
  static constexpr uint32_t kLow = 256;
  static bool is_low(int32_t left, int32_t right) { return static_cast<uint32_t>(left | right) < kLow; }
  static size_t low_index(int32_t left, int32_t right) {
    return static_cast<size_t>(left) * kLow + static_cast<size_t>(right);
  }

  void grow();
  size_t merge_short(int32_t* symbols, size_t n) const;
  size_t merge_long(int32_t* symbols, size_t n) const;
  template <class Queue>
  size_t merge_with(Queue& queue, int32_t* symbols, size_t n) const;

  std::vector<Entry> low_;  // [kLow, kLow]
  std::vector<Slot> slots_;
  size_t mask_;
  size_t count_ = 0;
  int32_t last_rank_ = 0;
};

}  // namespace gpt
