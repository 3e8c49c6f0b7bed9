#include "text/merge_table.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "base/error.h"

namespace gpt {
namespace {

// Symbols; beyond that looking at every pair for each merge costs more than a heap.
constexpr size_t kShort = 48;

}  // namespace

MergeTable::MergeTable(size_t pairs) : slots_(std::bit_ceil(2 * pairs + 2)), mask_(slots_.size() - 1) {}

void MergeTable::add(int32_t left, int32_t right, Entry entry) {
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
  symbols.resize(from + (n <= kShort ? merge_short(first, n) : merge_long(first, n)));
}

size_t MergeTable::merge_short(int32_t* symbols, size_t n) const {
  int32_t ranks[kShort], results[kShort];  // of symbols i and i + 1
  const auto look = [&](size_t i) {
    const Entry entry = find(symbols[i], symbols[i + 1]);
    ranks[i] = entry.rank;
    results[i] = entry.result;
  };
  for (size_t i = 0; i + 1 < n; ++i)
    look(i);
  while (n > 1) {
    const size_t at = static_cast<size_t>(std::min_element(ranks, ranks + n - 1) - ranks);
    if (ranks[at] == kNoRank) break;
    symbols[at] = results[at];
    --n;
    std::copy(symbols + at + 2, symbols + n + 1, symbols + at + 1);
    if (at + 1 < n) {
      std::copy(ranks + at + 2, ranks + n, ranks + at + 1);
      std::copy(results + at + 2, results + n, results + at + 1);
      look(at);
    }
    if (at > 0) look(at - 1);
  }
  return n;
}

size_t MergeTable::merge_long(int32_t* symbols, size_t n) const {
  // Symbols are a list; what has been merged into the symbol before it has no rank any more.
  struct Symbol {
    int32_t id;
    uint32_t previous, next;
    Entry entry;  // of this and the next one
  };
  constexpr uint32_t kNone = UINT32_MAX;
  if (n >= kNone) fail("a piece of text of {} symbols is too long", n);
  std::vector<Symbol> list(n);
  // A candidate is its rank and, below, the place of its left symbol: it is out of date when the pair that
  // stands there now has another rank.
  std::vector<uint64_t> first;
  const auto look = [&](uint32_t at, auto&& add) {
    Symbol& s = list[at];
    s.entry = s.next == kNone ? Entry{} : find(s.id, list[s.next].id);
    if (s.entry.rank != kNoRank) add(uint64_t{static_cast<uint32_t>(s.entry.rank)} << 32 | at);
  };
  for (uint32_t i = 0; i < n; ++i)
    list[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1, {}};
  for (uint32_t i = 0; i < n; ++i)
    look(i, [&](uint64_t c) { first.push_back(c); });
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue({}, std::move(first));
  const auto push = [&](uint64_t c) { queue.push(c); };
  while (!queue.empty()) {
    const uint64_t top = queue.top();
    queue.pop();
    const auto at = static_cast<uint32_t>(top);
    Symbol& left = list[at];
    if (left.entry.rank != static_cast<int32_t>(top >> 32)) continue;
    Symbol& right = list[left.next];
    left.id = left.entry.result;
    left.next = right.next;
    right.entry = {};
    if (left.next != kNone) list[left.next].previous = at;
    look(at, push);
    if (left.previous != kNone) look(left.previous, push);
  }
  size_t count = 0;
  for (uint32_t i = 0; i != kNone; i = list[i].next)
    symbols[count++] = list[i].id;
  return count;
}

}  // namespace gpt
