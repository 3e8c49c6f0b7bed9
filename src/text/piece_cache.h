#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt::detail {

// A piece of up to 15 bytes, packed into two integers. The integers contain the bytes of the piece, zero
// padding, and the length of the piece in the last byte.
struct PieceKey {
  static constexpr size_t kLongest = 15;

  uint64_t low, high;

  bool operator==(const PieceKey&) const = default;
  uint64_t hash() const { return (low ^ std::rotl(high, 29)) * 0x9E3779B97F4A7C15u; }

  // `readable` is the number of readable bytes from the start of the piece. It may exceed the size of the
  // piece.
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
  // Masks for the two words of a PieceKey, by the length of the piece.
  static constexpr auto kOwnBytes = [] {
    std::array<std::array<uint64_t, 2>, kLongest + 1> masks{};
    for (size_t byte = 0; byte < kLongest; ++byte) {
      for (size_t n = byte + 1; n <= kLongest; ++n)
        masks[n][byte / 8] |= uint64_t{0xFF} << 8 * (byte % 8);
    }
    return masks;
  }();
};

// A hash table that may evict entries. An entry type has the functions hash() and used(). A line of the table
// has two entries, the most recent entry first. A lookup first searches the line that the hash selects, and
// then the neighboring lines. If many entries are evicted, the table grows, up to a limit.
template <class Entry>
class ForgetfulTable {
 public:
  struct alignas(2 * sizeof(Entry)) Line {
    Entry entries[2];
  };

  // Creates a table of 2^bits lines that can grow to 2^most_bits lines.
  ForgetfulTable(int bits, int most_bits)
      : bits_(bits), most_bits_(most_bits), lines_(std::make_unique<Line[]>(size_t{1} << bits)) {}

  const Line& line_of(uint64_t hash) const { return lines_[hash >> (64 - bits_)]; }

  // Returns the entry with this hash for which is(entry) is true, or null if there is no such entry.
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

  template <class Is>
  void remove_if(Is&& is) {
    for (size_t i = 0; i < size_t{1} << bits_; ++i) {
      for (Entry& entry : lines_[i].entries) {
        if (entry.used() && is(entry)) entry = {};
      }
    }
  }

  // Adds an entry, which must not be in the table yet.
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
  static constexpr size_t kSet = 8;  // number of entries in neighboring lines that are searched

  Line& own_line(uint64_t hash) { return lines_[hash >> (64 - bits_)]; }
  Entry& in_set(uint64_t hash, size_t i) {
    return lines_[(hash >> (64 - bits_) & ~(kSet / 2 - 1)) + i / 2].entries[i % 2];
  }

  // The new entry of a line takes the first place, and the old first entry moves to the second place. Returns
  // a slot for the entry that leaves the second place.
  Entry& place_for_second(uint64_t hash) {
    Line& own = own_line(hash);
    if (!own.entries[1].used()) return own.entries[1];
    for (size_t i = 0; i < kSet; ++i) {
      if (Entry& entry = in_set(hash, i); !entry.used()) return entry;
    }
    Entry& entry = in_set(hash, driven_out_++ % kSet);
    return &entry == own.entries ? own.entries[1] : entry;
  }

  // Doubles the number of lines in the table.
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
  size_t driven_out_ = 0;  // number of evictions since the table last grew
  std::unique_ptr<Line[]> lines_;
};

// Caches the ids of pieces, because most of a text consists of a few thousand distinct words. A piece of up
// to 15 bytes with at most 4 ids is stored in a table of small entries. Longer lists of ids are stored in a
// separate list, to which the entries refer. For a piece of more than 15 bytes, this list also stores the
// bytes of the piece. The list is cleared when it reaches its maximum size.
class PieceCache {
 public:
  static constexpr size_t kFew = 4;        // number of ids that fit into an entry
  static constexpr size_t kSome = 16;      // a short piece must have fewer ids than this to be cached
  static constexpr size_t kLongest = 256;  // limit for the bytes and for the ids of a cached piece

  // A piece to be looked up, with its hash.
  struct Query {
    const char* data;  // the bytes of the piece
    size_t size;
    PieceKey key;   // for a long piece, the hash of the piece and a value that no short piece has
    uint64_t hash;  // hash of a short piece

    std::string_view piece() const { return {data, size}; }
    bool is_short() const { return size <= PieceKey::kLongest; }
  };
  // Prepares the lookup of a piece and prefetches the memory that is read first. `readable` is described at
  // PieceKey::of.
  Query query(std::string_view piece, size_t readable) const {
    if (piece.size() > PieceKey::kLongest) {
      const Query query{piece.data(), piece.size(), {hash_of(piece), 1}, 0};
      __builtin_prefetch(&long_.line_of(query.key.low));
      return query;
    }
    const PieceKey key = PieceKey::of(piece, readable);
    const Query query{piece.data(), piece.size(), key, key.hash()};
    __builtin_prefetch(&short_.line_of(query.hash));
    return query;
  }

  // Copies the ids of a piece to `ids` and returns their number. Returns kSome if the piece must be looked up
  // with find(). `ids` must have room for kSome values, because the function always copies a fixed number of
  // values.
  size_t copy_some(const Query& query, int32_t* ids) const {
    const auto& line = short_.line_of(query.hash);
    const Short& entry = line.entries[line.entries[0].is(query.key) ? 0 : 1];
    std::memcpy(ids, entry.ids, sizeof entry.ids);
    const size_t count = entry.is(query.key) ? entry.count() : kSome;
    if (count > kFew && count < kSome) std::memcpy(ids, &list_[entry.place()], kSome * sizeof *ids);
    return count;
  }

  // Returns the ids of a piece if the piece is cached. The ids are valid until the next call.
  std::optional<std::span<const int32_t>> find(const Query& query) {
    if (!query.is_short()) {
      const Long* const entry = find_long(query);
      if (entry == nullptr) return {};
      return std::span(&list_[entry->place], entry->ids);
    }
    const Short* const entry = find_short(query);
    if (entry == nullptr) return {};
    return std::span(entry->count() > kFew ? &list_[entry->place()] : entry->ids, entry->count());
  }

  // Caches the ids of a piece that find() did not find, unless the piece has too many ids.
  void keep(const Query& query, std::span<const int32_t> ids) {
    if (query.size > kLongest || ids.size() > (query.is_short() ? kSome - 1 : kLongest)) return;
    if (!query.is_short()) {
      const size_t place = add_to_list(ids, query.piece());
      long_.insert({query.key.low, static_cast<uint32_t>(place), static_cast<uint16_t>(query.size),
                    static_cast<uint16_t>(ids.size())});
    } else if (find_short(query) == nullptr) {
      const auto place = static_cast<int32_t>(ids.size() > kFew ? add_to_list(ids, {}) : 0);
      short_.insert(Short(query.key, ids.size(), ids.size() > kFew ? std::span(&place, 1) : ids));
    }
  }

  // Returns true if a previous call probably received the same piece.
  bool was_asked_before(const Query& query) {
    const uint64_t hash = query.is_short() ? query.hash : query.key.low;
    const auto tag = static_cast<uint16_t>(hash >> 32);
    return std::exchange(asked_[hash >> (64 - kAskedBits)], tag) == tag;
  }

 private:
  static constexpr int kAskedBits = 16;

  struct Short {
    // An empty entry has length 0. The upper half of the last byte of the key is the number of ids.
    PieceKey key{};
    int32_t ids[kFew] = {};  // the ids, or the index of the ids in list_

    Short() = default;
    Short(const PieceKey& k, uint64_t count, std::span<const int32_t> some)
        : key{k.low, k.high | count << 60} {
      std::ranges::copy(some, ids);
    }
    bool used() const { return key.high != 0; }
    bool is(const PieceKey& k) const { return ((key.low ^ k.low) | (key.high ^ k.high) << 4) == 0; }
    size_t count() const { return key.high >> 60; }
    size_t place() const { return static_cast<size_t>(ids[0]); }
    uint64_t hash() const { return PieceKey{key.low, key.high << 4 >> 4}.hash(); }
  };
  // A long piece, whose ids and bytes are stored in list_.
  struct Long {
    uint64_t of_piece = 0;
    uint32_t place = 0;
    uint16_t bytes = 0, ids = 0;

    bool used() const { return bytes != 0; }
    uint64_t hash() const { return of_piece; }
  };
  const Short* find_short(const Query& query) {
    return short_.find(query.hash, [&](const Short& entry) { return entry.is(query.key); });
  }
  const Long* find_long(const Query& query) {
    return long_.find(query.key.low, [&](const Long& entry) {
      return entry.of_piece == query.key.low && entry.bytes == query.size &&
             std::memcmp(&list_[entry.place + entry.ids], query.data, query.size) == 0;
    });
  }

  // Appends ids, followed by the bytes of a long piece, to list_. Returns the index of the ids.
  size_t add_to_list(std::span<const int32_t> ids, std::string_view piece) {
    const size_t words = ids.size() + (piece.size() + 3) / 4;
    if (used_ + words + kSome > kMostWords) {
      short_.remove_if([](const Short& entry) { return entry.count() > kFew; });
      long_.remove_if([](const Long&) { return true; });
      used_ = 0;
    }
    if (used_ + words + kSome > list_.size())
      list_.resize(std::clamp<size_t>(2 * list_.size(), 4096, kMostWords));
    const size_t place = used_;
    used_ += words;
    std::ranges::copy(ids, &list_[place]);
    std::ranges::copy(piece, reinterpret_cast<char*>(&list_[place + ids.size()]));
    return place;
  }

  // Returns the hash of a long piece.
  __attribute__((noinline)) static uint64_t hash_of(std::string_view piece) {
    uint64_t hash = piece.size();
    const auto add = [&](size_t at) {
      uint64_t word;
      std::memcpy(&word, piece.data() + at, sizeof word);
      hash = (std::rotl(hash, 29) ^ word) * 0x9E3779B97F4A7C15u;
    };
    for (size_t at = 0; at + sizeof hash < piece.size(); at += sizeof hash)
      add(at);
    add(piece.size() - sizeof hash);
    return hash;
  }

  ForgetfulTable<Short> short_{13, 17};                  // 0.5 to 8 MiB
  ForgetfulTable<Long> long_{10, 17};                    // up to 4 MiB
  static constexpr size_t kMostWords = size_t{2} << 20;  // maximum size of list_: 8 MiB
  std::vector<int32_t> list_;
  size_t used_ = 0;                                // number of used words in list_
  std::array<uint16_t, 1 << kAskedBits> asked_{};  // by hash: part of the hash of the last piece

  friend class PieceCaches;
  std::unique_ptr<PieceCache> next_;  // next cache in the list of idle caches
};

// The caches of a tokenizer. Each thread that encodes at the same time has its own cache. The caches affect
// speed, but not results.
class PieceCaches {
 public:
  // Returns a cache for encoding a text. Returns null until enough text has been encoded to make a cache
  // worthwhile.
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
  static constexpr size_t kWorthIt = 16384;  // in bytes of text; encoding this much takes as long as creating
                                             // a cache

  std::mutex mutex_;
  std::unique_ptr<PieceCache> idle_;  // list of idle caches
  size_t without_ = 0;                // number of bytes encoded without a cache
};

// Encodes the pieces of one text in order. encode(piece, ids) appends the ids of a piece that is not cached.
// Pieces are looked up in batches, so that memory latencies overlap. `encode` may have the function
// end_of_part(piece, from), like Bpe. A piece that is not cached is then looked up part by part.
// is_same_in_parts(id) returns false for a token if a whole piece can become this token, but a part of a
// piece cannot. In this case, encode_part(part, ids) encodes the part.
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

  // Adds a piece, which must stay valid until end_part() or all() is called. `readable` is described at
  // PieceKey::of.
  void add(std::string_view piece, size_t readable) {
    if (cache_ == nullptr) return encode_(piece, ids_);
    queries_[waiting_++] = cache_->query(piece, readable);
    readable_end_ = piece.data() + readable;
    if (waiting_ == kAtOnce) look_up();
  }
  void end_part() { look_up(); }
  void add_id(int32_t id) {
    if (cache_ == nullptr) return ids_.push_back(id);
    look_up();
    append({&id, 1});
  }
  // Returns the ids of all pieces that were added. More pieces may be added afterwards.
  std::vector<int32_t>& all() {
    look_up();
    flush();
    return ids_;
  }

 private:
  static constexpr size_t kAtOnce = 128, kRoom = PieceCache::kSome * kAtOnce, kBuffer = 8192;

  void look_up() {
    if (filled_ > kBuffer - kRoom) flush();
    for (size_t i = 0; i < waiting_; ++i) {
      bytes_ += queries_[i].size;
      if (!find(queries_[i])) add_rare(queries_[i]);
    }
    waiting_ = 0;
  }

  // Looks up a short piece in one line of the table and appends its ids. Returns false if the line does not
  // contain the piece.
  bool find(const PieceCache::Query& query) {
    const size_t count = cache_->copy_some(query, buffer_ + filled_);
    if (count == PieceCache::kSome) return false;
    filled_ += count;
    return true;
  }

  // Encodes a piece that find() did not find.
  __attribute__((noinline)) void add_rare(const PieceCache::Query& query) {
    if (const auto known = cache_->find(query)) return append(*known);
    if constexpr (requires { encode_.end_of_part(query.piece(), 0); }) {
      const size_t end = encode_.end_of_part(query.piece(), 0);
      if (end < query.size) return add_parts(query, end);
    }
    append(encode(query));
  }

  std::span<const int32_t> encode(const PieceCache::Query& query) {
    made_.clear();
    encode_(query.piece(), made_);
    cache_->keep(query, made_);
    return made_;
  }

  // Most pieces with several parts occur only once, so a piece is cached when it occurs for the second time.
  void add_parts(const PieceCache::Query& query, size_t end) {
    const std::string_view piece = query.piece();
    const bool keeps = query.size <= PieceCache::kLongest && cache_->was_asked_before(query);
    if (keeps && filled_ + query.size > kBuffer - kRoom) flush();
    const size_t first = filled_;
    for (size_t from = 0; from < query.size; end = encode_.end_of_part(piece, from)) {
      add_part(piece.substr(from, end - from));
      from = end;
    }
    if (keeps) cache_->keep(query, {buffer_ + first, filled_ - first});
  }

  void add_part(std::string_view part) {
    if (filled_ > kBuffer - kRoom) flush();
    const PieceCache::Query query = cache_->query(part, static_cast<size_t>(readable_end_ - part.data()));
    const size_t before = filled_;
    if (!find(query)) {
      const auto known = cache_->find(query);
      const std::span<const int32_t> ids = known ? *known : encode(query);
      if (ids.size() != 1 || encode_.is_same_in_parts(ids[0])) return append(ids);
    } else if (filled_ != before + 1 || encode_.is_same_in_parts(buffer_[before])) {
      return;
    }
    filled_ = before;
    made_.clear();
    encode_.encode_part(part, made_);
    append(made_);
  }

  // Appends ids, and leaves enough space for the ids that look_up() writes.
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
    if (size > ids_.capacity()) {  // reserve space for the rest of the text, based on the ids per byte so far
      const size_t left = text_bytes_ - std::min(bytes_, text_bytes_);
      const double per_byte = static_cast<double>(size) / static_cast<double>(std::max<size_t>(bytes_, 1));
      const auto more = static_cast<size_t>(std::min(1.0, 1.1 * per_byte) * static_cast<double>(left));
      ids_.reserve(size + std::max(more, size / 2));  // `left` does not include the rest of a long piece
    }
    ids_.insert(ids_.end(), buffer_, buffer_ + filled_);
    filled_ = 0;
  }

  PieceCaches& caches_;
  std::unique_ptr<PieceCache> cache_;
  Encode encode_;
  size_t text_bytes_, bytes_ = 0;  // bytes of the whole text, and bytes of the pieces that were looked up
  std::vector<int32_t> ids_, made_;
  const char* readable_end_ = nullptr;  // end of the readable bytes of the pending pieces
  size_t waiting_ = 0, filled_ = 0;
  PieceCache::Query queries_[kAtOnce];
  int32_t buffer_[kBuffer];
};

// A hash table of the tokens with up to 15 bytes, by their bytes.
class TokenTable {
 public:
  explicit TokenTable(size_t tokens = 0) : slots_(std::bit_ceil(2 * tokens + 2)), mask_(slots_.size() - 1) {}

  // Adds a token. The table must have a free slot. Tokens of more than 15 bytes are ignored.
  void add(std::string_view bytes, int32_t id) {
    if (bytes.empty() || bytes.size() > PieceKey::kLongest) return;
    const PieceKey key = PieceKey::of(bytes, bytes.size());
    size_t at = key.hash() >> 20 & mask_;
    while (slots_[at].id >= 0)
      at = (at + 1) & mask_;
    slots_[at] = {key, id};
  }

  // Returns the token with these bytes, or -1.
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
