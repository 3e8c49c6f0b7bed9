#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
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
  // count <= kMost ids.
  static constexpr size_t kMost = 64;
  void append(const int32_t* ids, size_t count) {
    if (filled_ + kMost > kSize) flush();
    std::memcpy(buffer_ + filled_, ids, count * sizeof *ids);
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
// that a new one drives out an old one. Pieces of up to 15 bytes and 4 ids have a table of small entries; a
// second one is for what is longer and still comes again and again, like rules and indentation.
class PieceCache {
 public:
  PieceCache()
      : few_(std::make_unique<Few[]>(size_t{1} << kFewBits)),
        many_(std::make_unique<Many[]>(size_t{1} << kManyBits)) {}

  // Appends the ids of a piece: what `encode(piece, ids)` appends, from the cache where it is known.
  // `readable` as for PieceKey.
  template <class Encode>
  void append(std::string_view piece, size_t readable, IdSink& sink, Encode&& encode) {
    if (piece.size() > PieceKey::kLongest) return append_many(piece, sink, encode);
    const PieceKey key = PieceKey::of(piece, readable);
    Few& entry = few_[key.hash() >> (64 - kFewBits)];
    if (entry.key == key) {
      if (entry.count > IdSink::kFew) return append_many(piece, sink, encode);
      return sink.append_few(entry.ids, entry.count);
    }
    std::vector<int32_t>& ids = sink.all();
    const size_t before = ids.size();
    encode(piece, ids);
    const size_t count = ids.size() - before;
    entry = {.key = key, .ids = {}, .count = static_cast<uint32_t>(count)};
    if (count > IdSink::kFew) return;
    std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(before), count, entry.ids);
  }

 private:
  static constexpr int kFewBits = 16;   // 2.5 MB: what is near to a core
  static constexpr int kManyBits = 12;  // 0.6 MB
  struct Few {
    PieceKey key;  // that of no piece has the length 0
    int32_t ids[IdSink::kFew];
    uint32_t count = 0;  // above kFew: the ids are in the other table, if anywhere
  };
  struct Many {
    static constexpr size_t kBytes = 50, kIds = 27;
    uint8_t size = 0, count = 0;
    char bytes[kBytes];
    int32_t ids[kIds];
  };
  static_assert(Many::kIds <= IdSink::kMost);

  template <class Encode>
  void append_many(std::string_view piece, IdSink& sink, Encode&& encode) {
    if (piece.size() > Many::kBytes) return encode(piece, sink.all());
    Many& entry = many_[hash_of(piece) >> (64 - kManyBits)];
    if (entry.size == piece.size() && std::memcmp(entry.bytes, piece.data(), piece.size()) == 0)
      return sink.append(entry.ids, entry.count);
    std::vector<int32_t>& ids = sink.all();
    const size_t before = ids.size();
    encode(piece, ids);
    const size_t count = ids.size() - before;
    if (count > Many::kIds) return;
    entry.size = static_cast<uint8_t>(piece.size());
    entry.count = static_cast<uint8_t>(count);
    std::memcpy(entry.bytes, piece.data(), piece.size());
    std::copy_n(ids.begin() + static_cast<std::ptrdiff_t>(before), count, entry.ids);
  }

  static uint64_t hash_of(std::string_view piece) {
    uint64_t hash = piece.size();
    for (size_t i = 0; i < piece.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, piece.data() + i, std::min<size_t>(piece.size() - i, 8));
      hash = (std::rotl(hash, 29) ^ word) * 0x9E3779B97F4A7C15u;
    }
    return hash;
  }

  std::unique_ptr<Few[]> few_;
  std::unique_ptr<Many[]> many_;

  friend class PieceCaches;
  std::unique_ptr<PieceCache> next_;  // in a list of idle ones
};

// The caches of a tokenizer: as many as threads have encoded at once, each used by one of them at a time.
// What they hold changes no result, only how soon it is there.
class PieceCaches {
 public:
  // A cache for one text.
  class Lease {
   public:
    Lease(PieceCaches& caches, size_t text_bytes) : caches_(caches), cache_(caches.take(text_bytes)) {}
    ~Lease() {
      if (cache_ != nullptr) caches_.give_back(std::move(cache_));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    // As PieceCache; without one as long as little text has come.
    template <class Encode>
    void append(std::string_view piece, size_t readable, IdSink& sink, Encode&& encode) {
      if (cache_ == nullptr) return encode(piece, sink.all());
      cache_->append(piece, readable, sink, encode);
    }

   private:
    PieceCaches& caches_;
    std::unique_ptr<PieceCache> cache_;
  };

 private:
  static constexpr size_t kWorthIt = 16384;  // bytes of text: making a cache takes as long as encoding them

  std::unique_ptr<PieceCache> take(size_t text_bytes) {
    {
      const std::lock_guard lock(mutex_);
      if (idle_ != nullptr) {
        std::unique_ptr<PieceCache> cache = std::move(idle_);
        idle_ = std::move(cache->next_);
        return cache;
      }
      without_ += text_bytes;
      if (without_ < kWorthIt) return nullptr;
    }
    return std::make_unique<PieceCache>();
  }
  void give_back(std::unique_ptr<PieceCache> cache) {
    const std::lock_guard lock(mutex_);
    cache->next_ = std::move(idle_);
    idle_ = std::move(cache);
  }

  std::mutex mutex_;
  std::unique_ptr<PieceCache> idle_;  // a list
  size_t without_ = 0;                // bytes of text that found none
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
