#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

#include "base/error.h"
#include "text/utf8.h"

namespace gpt {
namespace {

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
constexpr size_t kShort =
    48;  // bytes; beyond that looking at every pair for each merge costs more than a heap

uint64_t pair_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}
size_t hash_of(uint64_t pair) {
  return static_cast<size_t>((pair * 0x9E3779B97F4A7C15u) >> 20);
}

}  // namespace

Bpe::Bpe(std::vector<std::string> tokens, std::vector<Merge> merges)
    : tokens_(std::move(tokens)), merges_(std::move(merges)) {
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (!tokens_[id].empty()) by_bytes_.push_back(static_cast<int32_t>(id));
  }
  const auto bytes = [&](int32_t id) -> const std::string& { return tokens_[static_cast<size_t>(id)]; };
  std::sort(by_bytes_.begin(), by_bytes_.end(), [&](int32_t a, int32_t b) { return bytes(a) < bytes(b); });
  for (size_t i = 1; i < by_bytes_.size(); ++i) {
    if (bytes(by_bytes_[i - 1]) != bytes(by_bytes_[i])) continue;
    fail("the tokens {} and {} have the same bytes", by_bytes_[i - 1], by_bytes_[i]);
  }
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    byte_ids_[b] = find({&byte, 1});
    if (byte_ids_[b] < 0) fail("the vocabulary has no token for the byte {:#04x}", b);
  }
  slots_.resize(std::bit_ceil(2 * merges_.size() + 2));
  for (size_t i = 0; i < merges_.size(); ++i) {
    const Merge& m = merges_[i];
    for (const int32_t id : {m.left, m.right, m.result}) {
      if (id < 0 || id >= std::ssize(tokens_))
        fail("merge {} names the token {}, which does not exist", i, id);
    }
    if (bytes(m.left) + bytes(m.right) != bytes(m.result)) {
      fail("merge {} of \"{}\" and \"{}\" gives \"{}\"", i, printable_text(bytes(m.left), 40),
           printable_text(bytes(m.right), 40), printable_text(bytes(m.result), 40));
    }
    const uint64_t pair = pair_of(m.left, m.right);
    size_t at = hash_of(pair) & (slots_.size() - 1);
    while (slots_[at].pair != ~uint64_t{0} && slots_[at].pair != pair)
      at = (at + 1) & (slots_.size() - 1);
    if (slots_[at].pair == pair) continue;  // of two merges of a pair the first one counts
    slots_[at] = {pair, static_cast<int32_t>(i)};
  }
}

int32_t Bpe::find(std::string_view bytes) const {
  const auto found =
      std::lower_bound(by_bytes_.begin(), by_bytes_.end(), bytes,
                       [&](int32_t id, std::string_view b) { return tokens_[static_cast<size_t>(id)] < b; });
  return found != by_bytes_.end() && tokens_[static_cast<size_t>(*found)] == bytes ? *found : -1;
}

int32_t Bpe::rank(int32_t left, int32_t right) const {
  const uint64_t pair = pair_of(left, right);
  for (size_t at = hash_of(pair) & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].pair == pair) return slots_[at].rank;
    if (slots_[at].pair == ~uint64_t{0}) return kNoRank;
  }
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids) const {
  if (piece.size() <= kShort) {
    encode_short(piece, ids);
  } else {
    encode_long(piece, ids);
  }
}

void Bpe::encode_short(std::string_view piece, std::vector<int32_t>& ids) const {
  int32_t symbols[kShort], ranks[kShort];  // ranks[i]: of symbols i and i + 1
  size_t n = piece.size();
  for (size_t i = 0; i < n; ++i)
    symbols[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  for (size_t i = 0; i + 1 < n; ++i)
    ranks[i] = rank(symbols[i], symbols[i + 1]);
  while (n > 1) {
    const size_t at = static_cast<size_t>(std::min_element(ranks, ranks + n - 1) - ranks);
    if (ranks[at] == kNoRank) break;
    symbols[at] = merges_[static_cast<size_t>(ranks[at])].result;
    --n;
    std::copy(symbols + at + 2, symbols + n + 1, symbols + at + 1);
    if (at + 1 < n) std::copy(ranks + at + 2, ranks + n, ranks + at + 1);
    if (at > 0) ranks[at - 1] = rank(symbols[at - 1], symbols[at]);
    if (at + 1 < n) ranks[at] = rank(symbols[at], symbols[at + 1]);
  }
  ids.insert(ids.end(), symbols, symbols + n);
}

void Bpe::encode_long(std::string_view piece, std::vector<int32_t>& ids) const {
  // Symbols are a list; one that was merged into the symbol before it has the id -1.
  struct Symbol {
    int32_t id;
    uint32_t previous, next;
  };
  struct Candidate {
    int32_t rank;
    uint32_t left, right;
    int32_t left_id, right_id;  // a candidate is out of date when these have changed
    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };
  if (piece.size() >= UINT32_MAX) fail("a piece of text of {} bytes is too long", piece.size());
  constexpr uint32_t kNone = UINT32_MAX;
  const auto n = static_cast<uint32_t>(piece.size());
  std::vector<Symbol> symbols(n);
  std::vector<Candidate> first;
  const auto candidate = [&](uint32_t left, uint32_t right, auto&& add) {
    if (left == kNone || right == kNone) return;
    const int32_t a = symbols[left].id, b = symbols[right].id, r = rank(a, b);
    if (r != kNoRank) add(Candidate{r, left, right, a, b});
  };
  for (uint32_t i = 0; i < n; ++i)
    symbols[i] = {byte_ids_[static_cast<unsigned char>(piece[i])], i == 0 ? kNone : i - 1,
                  i + 1 == n ? kNone : i + 1};
  for (uint32_t i = 0; i + 1 < n; ++i)
    candidate(i, i + 1, [&](const Candidate& c) { first.push_back(c); });
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue({}, std::move(first));
  const auto push = [&](const Candidate& c) { queue.push(c); };
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Symbol &left = symbols[c.left], &right = symbols[c.right];
    if (left.id != c.left_id || right.id != c.right_id || left.next != c.right) continue;
    left.id = merges_[static_cast<size_t>(c.rank)].result;
    left.next = right.next;
    right.id = -1;
    if (left.next != kNone) symbols[left.next].previous = c.left;
    candidate(left.previous, c.left, push);
    candidate(c.left, left.next, push);
  }
  for (uint32_t i = 0; i != kNone && n > 0; i = symbols[i].next)
    ids.push_back(symbols[i].id);
}

}  // namespace gpt
