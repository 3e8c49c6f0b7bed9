#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace gpt::detail {

// A piece of up to 15 bytes as two numbers: its bytes, zeros, and its length in the last byte.
struct PieceKey {
  static constexpr size_t kLongest = 15;

  uint64_t low = 0, high = 0;

  bool operator==(const PieceKey&) const = default;
  uint64_t hash() const { return (low ^ std::rotl(high, 29)) * 0x9E3779B97F4A7C15u; }

  // `readable`: the bytes from the beginning of the piece on that may be read, at least its own.
  static PieceKey of(std::string_view piece, size_t readable) {
    uint64_t words[2] = {0, 0};
    const size_t n = piece.size();
    if (readable < sizeof words) {
      std::memcpy(words, piece.data(), n);
    } else {
      std::memcpy(words, piece.data(), sizeof words);
      words[0] &= first_bytes(std::min<size_t>(n, 8));
      words[1] &= first_bytes(n < 8 ? 0 : n - 8);
    }
    return {words[0], words[1] | uint64_t{n} << 56};
  }

 private:
  static_assert(std::endian::native == std::endian::little);
  static uint64_t first_bytes(size_t n) { return n == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * n) - 1; }
};

// Ids that are appended one piece after the other. A piece of a few ids costs no check of its own.
class IdSink {
 public:
  explicit IdSink(std::vector<int32_t>& ids) : ids_(ids) {}
  ~IdSink() { flush(); }
  IdSink(const IdSink&) = delete;
  IdSink& operator=(const IdSink&) = delete;

  static constexpr size_t kFew = 4;
  // The first `count` <= kFew of kFew ids.
  void append_few(const int32_t* few, size_t count) {
    if (filled_ + kFew > kSize) flush();
    std::memcpy(buffer_ + filled_, few, kFew * sizeof *few);
    filled_ += count;
  }
  // The vector, for appending more.
  std::vector<int32_t>& all() { return flush(), ids_; }

 private:
  static constexpr size_t kSize = 1024;
  void flush() {
    ids_.insert(ids_.end(), buffer_, buffer_ + filled_);
    filled_ = 0;
  }

  std::vector<int32_t>& ids_;
  size_t filled_ = 0;
  int32_t buffer_[kSize];
};

// The ids of pieces that were met before: most of a text is a few thousand words. One place per piece, so
// that a new one drives out an old one.
class PieceCache {
 public:
  // For a text of so many bytes; for a short one making the cache takes longer than encoding.
  explicit PieceCache(size_t text_bytes) {
    if (text_bytes < kWorthIt) return;
    const size_t entries = std::min(std::bit_ceil(text_bytes / 16), kMostEntries);
    entries_ = std::make_unique<Entry[]>(entries);
    shift_ = 64 - std::countr_zero(entries);
  }

  // Appends the ids of a piece: what `encode(piece, ids)` appends, from the cache where it is known.
  // `readable` as for PieceKey.
  template <class Encode>
  void append(std::string_view piece, size_t readable, IdSink& sink, Encode&& encode) {
    if (entries_ == nullptr || piece.size() > PieceKey::kLongest) return encode(piece, sink.all());
    const PieceKey key = PieceKey::of(piece, readable);
    Entry& entry = entries_[key.hash() >> shift_];
    if (entry.key != key) {
      std::vector<int32_t>& ids = sink.all();
      const size_t before = ids.size();
      encode(piece, ids);
      const size_t count = ids.size() - before;
      if (count > IdSink::kFew) return;
      entry = {.key = key, .ids = {}, .count = static_cast<uint32_t>(count)};
      std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(before), count, entry.ids);
      return;
    }
    sink.append_few(entry.ids, entry.count);
  }

 private:
  static constexpr size_t kMostEntries = 65536;  // 2 MB: what is near to a core
  static constexpr size_t kWorthIt = 16384;
  struct Entry {
    PieceKey key;  // that of no piece has the length 0
    int32_t ids[IdSink::kFew];
    uint32_t count = 0;
  };
  std::unique_ptr<Entry[]> entries_;
  int shift_ = 0;
};

// Pieces of up to 15 bytes that are one token.
class TokenTable {
 public:
  explicit TokenTable(size_t tokens = 0) : slots_(std::bit_ceil(2 * tokens + 2)), mask_(slots_.size() - 1) {}

  // Room must be for it; a token of more bytes is left out.
  void add(std::string_view bytes, int32_t id) {
    if (bytes.empty() || bytes.size() > PieceKey::kLongest) return;
    const PieceKey key = PieceKey::of(bytes, bytes.size());
    size_t at = key.hash() >> 20 & mask_;
    while (slots_[at].id >= 0)
      at = (at + 1) & mask_;
    slots_[at] = {key, id};
  }

  // The token with these bytes, or -1.
  int32_t find(std::string_view piece) const {
    if (piece.size() > PieceKey::kLongest) return -1;
    const PieceKey key = PieceKey::of(piece, piece.size());
    for (size_t at = key.hash() >> 20 & mask_;; at = (at + 1) & mask_) {
      if (slots_[at].key == key || slots_[at].id < 0) return slots_[at].id;
    }
  }

 private:
  struct Slot {
    PieceKey key;
    int32_t id = -1;
  };
  std::vector<Slot> slots_;
  size_t mask_;
};

}  // namespace gpt::detail
