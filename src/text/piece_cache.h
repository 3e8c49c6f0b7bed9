#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt::detail {

// A piece of up to 15 bytes as two numbers: its bytes, zeros, and its length in the last byte.
struct PieceKey {
  static constexpr size_t kLongest = 15;

  uint64_t low, high;

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
      words[0] &= kOwnBytes[n][0];
      words[1] &= kOwnBytes[n][1];
    }
    return {words[0], words[1] | uint64_t{n} << 56};
  }

 private:
  static_assert(std::endian::native == std::endian::little);
  // Masks for the two words of a piece, by its length.
  static constexpr auto kOwnBytes = [] {
    std::array<std::array<uint64_t, 2>, kLongest + 1> masks{};
    for (size_t byte = 0; byte < kLongest; ++byte) {
      for (size_t n = byte + 1; n <= kLongest; ++n)
        masks[n][byte / 8] |= uint64_t{0xFF} << 8 * (byte % 8);
    }
    return masks;
  }();
};

// A table for what may be forgotten. Entries have a hash() and say whether they are used(); they are looked
// for in lines of two, the last ones that came there first, and then in the lines beside theirs. Where many
// are driven out it grows, up to a limit.
template <class Entry>
class ForgetfulTable {
 public:
  struct alignas(64) Line {
    Entry entries[2];
  };

  // With 2^bits lines.
  ForgetfulTable(int bits, int most_bits)
      : bits_(bits), most_bits_(most_bits), lines_(std::make_unique<Line[]>(size_t{1} << bits)) {}

  const Line& line_of(uint64_t hash) const { return lines_[hash >> (64 - bits_)]; }

  // The entry of this hash of which is(entry) holds; null if there is none.
  template <class Is>
  const Entry* find(uint64_t hash, Is&& is) {
    Entry* const own = own_line(hash).entries;
    for (size_t i = 0; i < kSet; ++i) {
      Entry& entry = in_set(hash, i);
      if (!is(entry)) continue;
      if (&entry == own) return own;
      const Entry found = std::exchange(entry, own[1]);
      own[1] = std::exchange(own[0], found);
      return own;
    }
    return nullptr;
  }

  // Adds what is not there.
  void insert(const Entry& entry) {
    const uint64_t hash = entry.hash();
    Entry* const own = own_line(hash).entries;
    if (own[0].used()) {
      place_for_second(hash) = own[1];
      own[1] = own[0];
    }
    own[0] = entry;
    if (driven_out_ >> (bits_ - 3) != 0 && bits_ < most_bits_) grow();
  }

 private:
  static constexpr size_t kSet = 8;  // entries, of neighbouring lines

  Line& own_line(uint64_t hash) { return lines_[hash >> (64 - bits_)]; }
  Entry& in_set(uint64_t hash, size_t i) {
    return lines_[(hash >> (64 - bits_) & ~(kSet / 2 - 1)) + i / 2].entries[i % 2];
  }

  // Where the second entry of its line may go.
  Entry& place_for_second(uint64_t hash) {
    Line& own = own_line(hash);
    if (!own.entries[1].used()) return own.entries[1];
    for (size_t i = 0; i < kSet; ++i) {
      if (Entry& entry = in_set(hash, i); !entry.used()) return entry;
    }
    Entry& entry = in_set(hash, driven_out_++ % kSet);
    return &entry == own.entries ? own.entries[1] : entry;
  }

  // Twice the room.
  void grow() {
    const size_t size = size_t{1} << bits_;
    std::unique_ptr<Line[]> old = std::make_unique<Line[]>(2 * size);
    std::swap(lines_, old);
    ++bits_;
    driven_out_ = 0;
    for (size_t i = 0; i < size; ++i) {
      for (const int age : {1, 0}) {
        if (const Entry& entry = old[i].entries[age]; entry.used()) insert(entry);
      }
    }
  }

  int bits_, most_bits_;
  size_t driven_out_ = 0;  // since it has this size
  std::unique_ptr<Line[]> lines_;
};

// The ids of pieces of any length, one behind the other in memory that grows up to a limit; then all of them
// are forgotten.
class PieceList {
 public:
  // `hash` is that of the piece; empty if its ids are not known. They hold until the next call of insert.
  std::span<const int32_t> find(uint64_t hash, std::string_view piece) const {
    for (const Slot& slot : lines_[line_of(hash)].slots) {
      if (slot.end == 0 || slot.tag != tag_of(hash)) continue;
      const Entry entry = entry_before(slot.end);
      if (entry.piece == piece) return entry.ids;
    }
    return {};
  }

  // Adds what is not there; what takes too much memory is left out.
  void insert(uint64_t hash, std::string_view piece, std::span<const int32_t> ids) {
    if (piece.size() > kLongest || ids.size() > kLongest) return;
    const size_t more = ids.size() + words_of(piece.size()) + kHead;
    if (words_.size() + more > kMostWords) forget();
    if (words_.size() + more > words_.capacity())
      words_.reserve(std::clamp<size_t>(2 * words_.capacity(), 4096, kMostWords));
    words_.insert(words_.end(), ids.begin(), ids.end());
    const size_t begin = words_.size();
    words_.resize(begin + words_of(piece.size()) + kHead);
    std::memcpy(&words_[begin], piece.data(), piece.size());
    const Head head{hash, static_cast<uint32_t>(piece.size()), static_cast<uint32_t>(ids.size())};
    std::memcpy(&words_[words_.size() - kHead], &head, sizeof head);
    index(hash, words_.size());
    if (++count_ > 4 * lines_.size()) grow();
  }

 private:
  static constexpr size_t kLongest = 256;                // bytes, and ids
  static constexpr size_t kMostWords = size_t{2} << 20;  // 8 MiB; lines take at most 4 more
  struct Slot {
    uint32_t tag = 0;
    uint32_t end = 0;  // of the entry; 0: none
  };
  struct alignas(64) Line {
    Slot slots[8];
  };
  // In words_: ids, bytes, head.
  struct Head {
    uint64_t hash;
    uint32_t bytes, ids;
  };
  static constexpr size_t kHead = sizeof(Head) / sizeof(int32_t);
  struct Entry {
    Head head;
    std::string_view piece;
    std::span<const int32_t> ids;
    size_t begin;
  };

  static size_t words_of(size_t bytes) { return (bytes + 3) / 4; }
  static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash >> 16); }
  size_t line_of(uint64_t hash) const { return hash >> (std::countl_zero(lines_.size()) + 1); }

  Entry entry_before(size_t end) const {
    Entry e;
    std::memcpy(&e.head, &words_[end - kHead], sizeof e.head);
    const size_t bytes = end - kHead - words_of(e.head.bytes);
    e.begin = bytes - e.head.ids;
    e.piece = {reinterpret_cast<const char*>(words_.data() + bytes), e.head.bytes};
    e.ids = {words_.data() + e.begin, e.head.ids};
    return e;
  }

  // A slot for an entry, in place of another one where none is free.
  void index(uint64_t hash, size_t end) {
    auto& slots = lines_[line_of(hash)].slots;
    size_t at = 0;
    while (at < std::size(slots) && slots[at].end != 0)
      ++at;
    if (at == std::size(slots)) at = end % std::size(slots);
    slots[at] = {tag_of(hash), static_cast<uint32_t>(end)};
  }

  void grow() {
    lines_ = std::vector<Line>(2 * lines_.size());
    for (size_t end = words_.size(); end > 0;) {
      const Entry entry = entry_before(end);
      index(entry.head.hash, end);
      end = entry.begin;
    }
  }

  void forget() {
    words_.clear();
    count_ = 0;
    std::ranges::fill(lines_, Line());
  }

  std::vector<int32_t> words_;
  std::vector<Line> lines_ = std::vector<Line>(1024);
  size_t count_ = 0;  // of entries
};

// The ids of pieces that were met before: most of a text is a few thousand words. Pieces of up to 15 bytes
// and 4 ids have a table of small entries; what is longer, like rules, indentation, and words of scripts that
// a vocabulary knows little of, is in a list.
class PieceCache {
 public:
  static constexpr size_t kFew = 4;  // ids

  // A piece that is looked for, and where.
  struct Query {
    const char* data;  // the piece
    size_t size;
    PieceKey key;  // of no entry if the piece is too long for one
    uint64_t hash;

    std::string_view piece() const { return {data, size}; }
  };
  // `readable` as for PieceKey. What find_few reads is on its way to the caches of the processor.
  Query query(std::string_view piece, size_t readable) const {
    if (piece.size() > PieceKey::kLongest) return {piece.data(), piece.size(), {1, 0}, hash_of(piece)};
    const PieceKey key = PieceKey::of(piece, readable);
    const Query query{piece.data(), piece.size(), key, key.hash()};
    __builtin_prefetch(&few_.line_of(query.hash));
    return query;
  }

  // Writes kFew ids, of which the first are those of the piece, and says how many; more than kFew if only
  // find can tell.
  size_t find_few(const Query& query, int32_t* ids) const {
    const auto& line = few_.line_of(query.hash);
    const Few& entry = line.entries[line.entries[0].is(query.key) ? 0 : 1];
    std::memcpy(ids, entry.ids, sizeof entry.ids);
    return entry.is(query.key) ? entry.count() : kFew + 1;
  }

  // The ids of any piece; empty if they are not known. They hold until the next call.
  std::span<const int32_t> find(const Query& query) {
    if (query.size <= PieceKey::kLongest) {
      const Few* const few = find_in_few(query);
      if (few == nullptr) return {};
      if (few->count() <= kFew) return {few->ids, few->count()};
    }
    return many_.find(query.hash, query.piece());
  }

  // Keeps the ids of a piece that find did not find.
  void keep(const Query& query, std::span<const int32_t> ids) {
    const bool few = query.size <= PieceKey::kLongest;
    if (few && find_in_few(query) == nullptr) few_.insert(Few(query.key, ids));
    if (!few || ids.size() > kFew) many_.insert(query.hash, query.piece(), ids);
  }

 private:
  struct Few {
    // That of no piece has the length 0; the upper half of the last byte is the number of ids.
    PieceKey key{};
    int32_t ids[kFew] = {};

    Few() = default;
    Few(const PieceKey& k, std::span<const int32_t> all)
        : key{k.low, k.high | std::min<uint64_t>(all.size(), kFew + 1) << 60} {
      std::ranges::copy(all.first(std::min(all.size(), kFew)), ids);
    }
    bool used() const { return key.high != 0; }
    bool is(const PieceKey& k) const { return ((key.low ^ k.low) | (key.high ^ k.high) << 4) == 0; }
    size_t count() const { return key.high >> 60; }  // kFew + 1: they are in the other table, if anywhere
    uint64_t hash() const { return PieceKey{key.low, key.high << 4 >> 4}.hash(); }
  };
  const Few* find_in_few(const Query& query) {
    return few_.find(query.hash, [&](const Few& entry) { return entry.is(query.key); });
  }

  // Of long pieces.
  __attribute__((noinline)) static uint64_t hash_of(std::string_view piece) {
    uint64_t hash = piece.size();
    for (size_t i = 0; i < piece.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, piece.data() + i, std::min<size_t>(piece.size() - i, 8));
      hash = (std::rotl(hash, 29) ^ word) * 0x9E3779B97F4A7C15u;
    }
    return hash;
  }

  ForgetfulTable<Few> few_{13, 17};  // 0.5 to 8 MiB
  PieceList many_;

  friend class PieceCaches;
  std::unique_ptr<PieceCache> next_;  // in a list of idle ones
};

// The caches of a tokenizer: as many as threads have encoded at once, each used by one of them at a time.
// What they hold changes no result, only how soon it is there.
class PieceCaches {
 public:
  // A cache for a text; null as long as little text has come.
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

 private:
  static constexpr size_t kWorthIt = 16384;  // bytes of text: making a cache takes as long as encoding them

  std::mutex mutex_;
  std::unique_ptr<PieceCache> idle_;  // a list
  size_t without_ = 0;                // bytes of text that found none
};

// The ids of the pieces of one text, which are added in order: encode(piece, ids) appends those of a piece
// that no earlier text had. Many pieces are looked up at once, so that one does not wait for the memory of
// the other.
template <class Encode>
class PieceEncoder {
 public:
  PieceEncoder(PieceCaches& caches, size_t text_bytes, Encode encode)
      : caches_(caches),
        cache_(caches.take(text_bytes)),
        encode_(std::move(encode)),
        text_bytes_(text_bytes) {
    if (cache_ == nullptr) ids_.reserve(text_bytes / 4);
  }
  ~PieceEncoder() {
    if (cache_ != nullptr) caches_.give_back(std::move(cache_));
  }
  PieceEncoder(const PieceEncoder&) = delete;
  PieceEncoder& operator=(const PieceEncoder&) = delete;

  // `readable` as for PieceKey. The piece must stay until end_part or all.
  void add(std::string_view piece, size_t readable) {
    if (cache_ == nullptr) return encode_(piece, ids_);
    queries_[waiting_++] = cache_->query(piece, readable);
    if (waiting_ == kAtOnce) look_up();
  }
  void end_part() { look_up(); }
  void add_id(int32_t id) {
    if (cache_ == nullptr) return ids_.push_back(id);
    look_up();
    append({&id, 1});
  }
  // The ids of everything that was added; more may be appended.
  std::vector<int32_t>& all() {
    look_up();
    flush();
    return ids_;
  }

 private:
  static constexpr size_t kAtOnce = 128, kRoom = PieceCache::kFew * kAtOnce, kBuffer = 8192;

  void look_up() {
    if (filled_ > kBuffer - kRoom) flush();
    for (size_t i = 0; i < waiting_; ++i) {
      bytes_ += queries_[i].size;
      const size_t count = cache_->find_few(queries_[i], buffer_ + filled_);
      if (count <= PieceCache::kFew) {
        filled_ += count;
      } else {
        add_rare(queries_[i]);
      }
    }
    waiting_ = 0;
  }

  // A piece that find_few did not find.
  __attribute__((noinline)) void add_rare(const PieceCache::Query& query) {
    const std::span<const int32_t> known = cache_->find(query);
    if (!known.empty()) return append(known);
    made_.clear();
    encode_(query.piece(), made_);
    cache_->keep(query, made_);
    append(made_);
  }

  // Leaves room for what look_up writes.
  void append(std::span<const int32_t> ids) {
    if (filled_ + ids.size() > kBuffer - kRoom) flush();
    if (ids.size() > kBuffer - kRoom) {
      ids_.insert(ids_.end(), ids.begin(), ids.end());
    } else {
      std::ranges::copy(ids, buffer_ + filled_);
      filled_ += ids.size();
    }
  }

  void flush() {
    const size_t size = ids_.size() + filled_;
    if (size > ids_.capacity()) {  // as many as if the text goes on as it began, and some more
      const size_t left = text_bytes_ - std::min(bytes_, text_bytes_);
      const double per_byte = static_cast<double>(size) / static_cast<double>(std::max<size_t>(bytes_, 1));
      ids_.reserve(size + static_cast<size_t>(std::min(1.0, 1.1 * per_byte) * static_cast<double>(left)));
    }
    ids_.insert(ids_.end(), buffer_, buffer_ + filled_);
    filled_ = 0;
  }

  PieceCaches& caches_;
  std::unique_ptr<PieceCache> cache_;
  Encode encode_;
  size_t text_bytes_, bytes_ = 0;  // of all pieces, and of those that were looked up
  std::vector<int32_t> ids_, made_;
  size_t waiting_ = 0, filled_ = 0;
  PieceCache::Query queries_[kAtOnce];
  int32_t buffer_[kBuffer];
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
    PieceKey key{};
    int32_t id = -1;
  };
  std::vector<Slot> slots_;
  size_t mask_;
};

}  // namespace gpt::detail
