#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace gpt::detail {

// The ids of pieces that were met before: most of a text is a few thousand words. One place per piece, so
// that a new one drives out an old one.
class PieceCache {
 public:
  static constexpr size_t kLongest = 15;
  static constexpr size_t kMostIds = 4;

  struct Entry {
    uint64_t bytes[2] = {0, 0};  // of the piece, its length in the last one
    int32_t ids[kMostIds];
    uint32_t count = 0;
  };

  explicit PieceCache(size_t text_bytes) : entries_(text_bytes < kWorthIt ? 0 : kEntries) {}

  // Where the ids of a piece are, or, with a count of 0, may be put; null for long pieces and short texts.
  Entry* find(std::string_view piece) {
    if (entries_.empty() || piece.size() > kLongest) return nullptr;
    uint64_t bytes[2] = {0, 0};
    std::memcpy(bytes, piece.data(), piece.size());
    bytes[1] |= uint64_t{piece.size()} << 56;
    const uint64_t hash = (bytes[0] ^ std::rotl(bytes[1], 29)) * 0x9E3779B97F4A7C15u;
    Entry& entry = entries_[static_cast<size_t>(hash >> (64 - kBits))];
    if (entry.bytes[0] != bytes[0] || entry.bytes[1] != bytes[1]) {
      entry.bytes[0] = bytes[0];
      entry.bytes[1] = bytes[1];
      entry.count = 0;
    }
    return &entry;
  }

  // Appends the ids of a piece: what `encode(piece, ids)` appends, from the cache where it is known.
  template <class Encode>
  void append(std::string_view piece, std::vector<int32_t>& ids, Encode&& encode) {
    Entry* entry = find(piece);
    if (entry != nullptr && entry->count > 0) {
      ids.insert(ids.end(), entry->ids, entry->ids + entry->count);
      return;
    }
    const size_t before = ids.size();
    encode(piece, ids);
    if (entry == nullptr || ids.size() - before > kMostIds) return;
    entry->count = static_cast<uint32_t>(ids.size() - before);
    std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry->ids);
  }

 private:
  static constexpr int kBits = 14;
  static constexpr size_t kEntries = size_t{1} << kBits;
  static constexpr size_t kWorthIt =
      16384;  // bytes of text; making the cache takes longer than encoding less
  std::vector<Entry> entries_;
};

}  // namespace gpt::detail
