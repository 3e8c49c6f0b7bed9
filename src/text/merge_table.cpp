#include "text/merge_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <queue>

#include "base/error.h"

namespace gpt {
namespace {

// Maximum number of symbols for which scanning all pairs in each merge is cheaper than a heap.
constexpr size_t kShort = 128;
// Minimum number of symbols for which a list per rank is cheaper than a single heap.
constexpr size_t kHuge = 4096;

// A pair of symbols that may be merged, identified by the position of the left symbol. The candidate is
// outdated if the pair at this position now has a different rank.
struct MergeCandidate {
  int32_t rank = 0;
  uint32_t at = 0;
};

// The mergeable pairs in a short list of symbols. Each pair is stored as one integer that combines its rank
// and its position, so the smallest integer is the next merge. The pairs are divided into groups, and the
// smallest integer of each group is cached.
class ShortRanks {
 public:
  static constexpr int32_t kNone = std::numeric_limits<int32_t>::max();
  // The stored integers can represent ranks below this value.
  static constexpr int32_t kRanks = kNone / static_cast<int32_t>(kShort);

  explicit ShortRanks(size_t n) : groups_((n + kGroup - 1) / kGroup) {
    std::fill_n(pairs_, groups_ * kGroup, kNone);
    std::fill_n(least_, std::size(least_), kNone);
  }
  void set(size_t at, int32_t rank) {
    pairs_[at] =
        rank == MergeTable::kNoRank ? kNone : static_cast<int32_t>(static_cast<size_t>(rank) * kShort + at);
  }
  // Must be called after setting the pairs from `first` to `last`.
  void update(size_t first, size_t last) {
    for (size_t group = first / kGroup; group <= last / kGroup; ++group)
      least_[group] = least_of(pairs_ + group * kGroup, kGroup);
  }
  int32_t least() const { return groups_ == 1 ? least_[0] : least_of(least_, std::size(least_)); }
  static size_t place_of(int32_t pair) { return static_cast<size_t>(pair) % kShort; }

 private:
  static constexpr size_t kGroup = 16;
  using Four = int32_t __attribute__((vector_size(16)));

  static int32_t least_of(const int32_t* numbers, size_t n) {
    Four least;
    std::memcpy(&least, numbers, sizeof least);
    for (size_t i = 4; i < n; i += 4) {
      Four more;
      std::memcpy(&more, numbers + i, sizeof more);
      least = more < least ? more : least;
    }
    return std::min(std::min(least[0], least[1]), std::min(least[2], least[3]));
  }

  size_t groups_;
  int32_t pairs_[kShort];
  int32_t least_[kShort / kGroup];
};

// Returns candidates in the order of their ranks. Candidates with the same rank are returned in the order of
// their positions.
class HeapQueue {
 public:
  void push(MergeCandidate c) { heap_.push(uint64_t{static_cast<uint32_t>(c.rank)} << 32 | c.at); }
  bool pop(MergeCandidate& c) {
    if (heap_.empty()) return false;
    c = {static_cast<int32_t>(heap_.top() >> 32), static_cast<uint32_t>(heap_.top())};
    heap_.pop();
    return true;
  }

 private:
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> heap_;
};

// Returns candidates in the same order as HeapQueue. Designed for many candidates with few distinct ranks.
// The candidates should mostly arrive in the order of their positions. Stores a list for each rank and a heap
// of the ranks with non-empty lists.
class RankQueue {
 public:
  explicit RankQueue(int32_t last_rank) : of_rank_(static_cast<size_t>(last_rank) + 1, -1) {}

  void push(MergeCandidate c) {
    int32_t& index = of_rank_[static_cast<size_t>(c.rank)];
    if (index < 0) {
      index = static_cast<int32_t>(buckets_.size());
      buckets_.emplace_back();
    }
    Bucket& bucket = buckets_[static_cast<size_t>(index)];
    if (!bucket.waits) ranks_.push(c.rank);
    bucket.waits = true;
    if (bucket.started) {
      bucket.late.push(c.at);
    } else {
      bucket.places.push_back(c.at);
    }
  }

  bool pop(MergeCandidate& c) {
    while (!ranks_.empty()) {
      c.rank = ranks_.top();
      Bucket& bucket = buckets_[static_cast<size_t>(of_rank_[static_cast<size_t>(c.rank)])];
      if (bucket.pop(c.at)) return true;
      bucket = {};
      ranks_.pop();
    }
    return false;
  }

 private:
  using Places = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;
  struct Bucket {
    bool pop(uint32_t& at) {
      if (!started && !std::ranges::is_sorted(places)) std::ranges::sort(places);
      started = true;
      const bool in_places = next < places.size();
      if (!late.empty() && (!in_places || late.top() < places[next])) {
        at = late.top();
        late.pop();
        return true;
      }
      if (in_places) at = places[next++];
      return in_places;
    }
    std::vector<uint32_t> places;  // sorted when the first position is taken
    size_t next = 0;
    Places late;  // positions that were added after sorting
    bool started = false, waits = false;
  };

  std::vector<int32_t> of_rank_;  // index of the bucket of each rank; -1: no bucket
  std::vector<Bucket> buckets_;
  std::priority_queue<int32_t, std::vector<int32_t>, std::greater<>> ranks_;
};

}  // namespace

MergeTable::MergeTable(size_t pairs)
    : low_(kLow * kLow), slots_(std::bit_ceil(2 * pairs + 2)), mask_(slots_.size() - 1) {}

void MergeTable::add(int32_t left, int32_t right, Entry entry) {
  last_rank_ = std::max(last_rank_, entry.rank);
  if (is_low(left, right)) {
    Entry& low = low_[low_index(left, right)];
    if (low.rank == kNoRank) low = entry;
    return;
  }
  const uint64_t pair = pair_of(left, right);
  size_t at = hash_of(pair) & mask_;
  while (slots_[at].pair != kEmpty && slots_[at].pair != pair)
    at = (at + 1) & mask_;
  if (slots_[at].pair == pair) return;
  slots_[at] = {pair, entry};
  if (2 * ++count_ > slots_.size()) grow();
}

void MergeTable::grow() {
  MergeTable larger(2 * count_);
  larger.low_ = std::move(low_);
  larger.last_rank_ = last_rank_;
  for (const Slot& slot : slots_) {
    if (slot.pair == kEmpty) continue;
    larger.add(static_cast<int32_t>(slot.pair >> 32), static_cast<int32_t>(slot.pair & UINT32_MAX),
               slot.entry);
  }
  *this = std::move(larger);
}

void MergeTable::merge(std::vector<int32_t>& symbols, size_t from) const {
  const size_t n = symbols.size() - from;
  if (n < 2) return;
  int32_t* first = symbols.data() + from;
  symbols.resize(
      from + (n <= kShort && last_rank_ < ShortRanks::kRanks ? merge_short(first, n) : merge_long(first, n)));
}

size_t MergeTable::merge_short(int32_t* symbols, size_t n) const {
  ShortRanks ranks(n);
  int32_t results[kShort];                 // result of merging a symbol with the next one
  uint8_t next[kShort], previous[kShort];  // positions; a value >= n means none
  const auto look = [&](size_t left) {
    const Entry entry = next[left] < n ? find(symbols[left], symbols[next[left]]) : Entry{};
    ranks.set(left, entry.rank);
    results[left] = entry.result;
  };
  for (size_t i = 0; i < n; ++i) {
    next[i] = static_cast<uint8_t>(i + 1);
    previous[i] = static_cast<uint8_t>(i - 1);
    look(i);
  }
  ranks.update(0, n - 1);
  for (int32_t best = ranks.least(); best != ShortRanks::kNone; best = ranks.least()) {
    const size_t left = ShortRanks::place_of(best), right = next[left], before = previous[left];
    symbols[left] = results[left];
    next[left] = next[right];
    if (next[left] < n) previous[next[left]] = static_cast<uint8_t>(left);
    ranks.set(right, kNoRank);
    look(left);
    if (before < n) look(before);
    ranks.update(before < n ? before : left, right);
  }
  size_t count = 0;
  for (size_t i = 0; i < n; i = next[i])
    symbols[count++] = symbols[i];
  return count;
}

size_t MergeTable::merge_long(int32_t* symbols, size_t n) const {
  if (n >= UINT32_MAX) fail("a piece of text of {} symbols is too long", n);
  if (n < kHuge) {
    HeapQueue queue;
    return merge_with(queue, symbols, n);
  }
  RankQueue queue(last_rank_);
  return merge_with(queue, symbols, n);
}

template <class Queue>
size_t MergeTable::merge_with(Queue& queue, int32_t* symbols, size_t n) const {
  // The symbols form a linked list. A symbol that has been merged into the previous symbol has no rank.
  struct Symbol {
    int32_t id;
    uint32_t previous, next;
    Entry entry;  // merge of this symbol and the next one
  };
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<Symbol> list(n);
  const auto look = [&](uint32_t at) {
    Symbol& s = list[at];
    s.entry = s.next == kNone ? Entry{} : find(s.id, list[s.next].id);
    if (s.entry.rank != kNoRank) queue.push({s.entry.rank, at});
  };
  for (uint32_t i = 0; i < n; ++i)
    list[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1, {}};
  for (uint32_t i = 0; i < n; ++i)
    look(i);
  for (MergeCandidate top; queue.pop(top);) {
    Symbol& left = list[top.at];
    if (left.entry.rank != top.rank) continue;
    Symbol& right = list[left.next];
    left.id = left.entry.result;
    left.next = right.next;
    right.entry = {};
    if (left.next != kNone) list[left.next].previous = top.at;
    look(top.at);
    if (left.previous != kNone) look(left.previous);
  }
  size_t count = 0;
  for (uint32_t i = 0; i != kNone; i = list[i].next)
    symbols[count++] = list[i].id;
  return count;
}

}  // namespace gpt
