#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/buffer.h"

namespace gpt {

// Manages the pages of a paged KV cache, but not the cached values. (The code calls a cache page a block.)
// The pool has a fixed number of pages of kTokens tokens. The pool records the holders and the tokens of each
// page. Any number of holders can share a page.
//
// A page contains the results for up to kTokens consecutive tokens of a sequence. The results depend on these
// tokens and on all earlier tokens of the sequence. The previous page, called the parent, represents all
// earlier tokens. Every page has a serial number that is never reused, so the parent's serial number
// identifies the earlier tokens exactly. Lookups never rely on a hash alone.
//
// A page without holders keeps its content for later reuse until its memory is needed. Pages are reclaimed in
// the order of their release.
class BlockPool {
 public:
  static constexpr int64_t kTokens = 64;
  static constexpr int32_t kNone = -1;
  // Parent of the first page of a sequence. Additional roots count down from the largest uint64_t: ~0, ~1,
  // ...
  static constexpr uint64_t kRoot = 0;

  BlockPool() = default;
  explicit BlockPool(int64_t blocks);

  int64_t size() const { return size_; }
  int64_t available() const { return queued_ + size_ - used_; }  // number of pages without holders

  // Returns an empty page with the given parent and one holder, or kNone if no page is available.
  int32_t take(uint64_t parent);
  void hold(int32_t block);
  void release(int32_t block);
  // Records the next token of a page. The page must have exactly one holder and must not be full.
  void append(int32_t block, int32_t token);
  // Removes all tokens of a page except the first n > 0. The page must have exactly one holder. If tokens are
  // removed, the page gets a new serial number, so that later pages no longer count as its successors.
  void truncate(int32_t block, int64_t n);
  // Records the first n tokens of page `from` in the empty page `to`.
  void append_from(int32_t from, int32_t to, int64_t n);

  // Clears the content of all pages whose parent is in the range `first` to `last`. These pages must have no
  // holders. Later lookups with these parents find no pages.
  void forget_after(uint64_t first, uint64_t last);

  uint64_t serial(int32_t block) const { return at(block).serial; }
  uint64_t parent(int32_t block) const { return at(block).parent; }
  int64_t filled(int32_t block) const { return at(block).filled; }
  int32_t holders(int32_t block) const { return at(block).holders; }

  // The result of a lookup: the page whose tokens share the longest prefix with the given tokens, and the
  // length of this prefix.
  struct Match {
    int32_t block = kNone;
    int64_t tokens = 0;
  };
  Match find(uint64_t parent, std::span<const int32_t> tokens) const;

 private:
  struct Block {
    uint64_t serial, parent;
    int32_t holders, filled;
    int32_t older, newer;  // neighbours in the queue of available pages
    int32_t chained;       // next page in the same hash bucket
    int32_t tokens[kTokens];
  };

  const Block& at(int32_t block) const { return memory_.as<Block>()[block]; }
  Block& at(int32_t block) { return memory_.as<Block>()[block]; }
  size_t bucket(uint64_t parent, int32_t first_token) const;
  void forget(int32_t block);
  void enqueue(int32_t block);
  void dequeue(int32_t block);

  Buffer memory_;  // page records; physical memory is allocated on first use
  int64_t size_ = 0;
  int64_t used_ = 0;  // number of pages that were used at least once; these pages come first
  // Hash table of the pages with content. The hash key is the parent and the first token of a page. Few pages
  // have the same parent and the same first token. The hash key omits the other tokens, so that a lookup also
  // finds pages that match only partially.
  std::vector<int32_t> buckets_;
  int32_t oldest_ = kNone, newest_ = kNone;
  int64_t queued_ = 0;
  uint64_t last_serial_ = kRoot;
};

}  // namespace gpt
