#include "model/block_pool.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace gpt {

BlockPool::BlockPool(int64_t blocks)
    : memory_(static_cast<size_t>(blocks) * sizeof(Block), "the page table of the KV cache"),
      size_(blocks),
      buckets_(std::bit_ceil(static_cast<size_t>(std::max<int64_t>(1, blocks))), kNone) {}

// Returns pages without content first, then pages that were never used, then pages in the order of their
// release.
int32_t BlockPool::take(uint64_t parent) {
  int32_t b = oldest_;
  if (used_ < size_ && (b == kNone || at(b).filled > 0)) {
    b = static_cast<int32_t>(used_++);
  } else {
    if (b == kNone) return kNone;
    dequeue(b);
    forget(b);
  }
  Block& block = at(b);
  block.serial = ++last_serial_;
  block.parent = parent;
  block.holders = 1;
  return b;
}

void BlockPool::hold(int32_t block) {
  if (at(block).holders++ == 0) dequeue(block);
}

void BlockPool::release(int32_t block) {
  GPT_ASSERT(at(block).holders > 0);
  if (--at(block).holders == 0) enqueue(block);
}

void BlockPool::append(int32_t b, int32_t token) {
  Block& block = at(b);
  GPT_ASSERT(block.holders == 1 && block.filled < kTokens);
  block.tokens[block.filled++] = token;
  if (block.filled > 1) return;
  int32_t& head = buckets_[bucket(block.parent, token)];
  block.chained = head;
  head = b;
}

void BlockPool::truncate(int32_t b, int64_t n) {
  Block& block = at(b);
  GPT_ASSERT(block.holders == 1 && n > 0 && n <= block.filled);
  if (n == block.filled) return;
  forget(b);
  block.serial = ++last_serial_;
  append_from(b, b, n);
}

void BlockPool::append_from(int32_t from, int32_t to, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    append(to, at(from).tokens[i]);
}

void BlockPool::forget_after(uint64_t first, uint64_t last) {
  for (int32_t b = 0; b < used_; ++b) {
    const Block& block = at(b);
    if (block.filled == 0 || block.parent < first || block.parent > last) continue;
    GPT_ASSERT(block.holders == 0);
    dequeue(b);
    forget(b);
    enqueue(b);
  }
}

BlockPool::Match BlockPool::find(uint64_t parent, std::span<const int32_t> tokens) const {
  Match best;
  if (tokens.empty()) return best;
  for (int32_t b = buckets_[bucket(parent, tokens[0])]; b != kNone; b = at(b).chained) {
    const Block& block = at(b);
    if (block.parent != parent) continue;
    const size_t most = std::min(tokens.size(), static_cast<size_t>(block.filled));
    const auto end = std::mismatch(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(most),
                                   std::begin(block.tokens));
    const auto common = static_cast<int64_t>(end.first - tokens.begin());
    if (common > best.tokens) best = {b, common};
  }
  return best;
}

size_t BlockPool::bucket(uint64_t parent, int32_t first_token) const {
  uint64_t hash = (parent ^ static_cast<uint64_t>(first_token) << 40) * 0x9E3779B97F4A7C15ull;
  hash ^= hash >> 32;
  return hash & (buckets_.size() - 1);
}

// Removes a page from its hash bucket and clears its content.
void BlockPool::forget(int32_t b) {
  Block& block = at(b);
  if (block.filled == 0) return;
  int32_t* link = &buckets_[bucket(block.parent, block.tokens[0])];
  while (*link != b)
    link = &at(*link).chained;
  *link = block.chained;
  block.filled = 0;
}

// Adds a page to the end of the queue, or to the front if the page has no content.
void BlockPool::enqueue(int32_t b) {
  Block& block = at(b);
  const bool first = block.filled == 0;
  block.older = first ? kNone : newest_;
  block.newer = first ? oldest_ : kNone;
  (block.older == kNone ? oldest_ : at(block.older).newer) = b;
  (block.newer == kNone ? newest_ : at(block.newer).older) = b;
  ++queued_;
}

void BlockPool::dequeue(int32_t b) {
  const Block& block = at(b);
  (block.older == kNone ? oldest_ : at(block.older).newer) = block.newer;
  (block.newer == kNone ? newest_ : at(block.newer).older) = block.older;
  --queued_;
}

}  // namespace gpt
