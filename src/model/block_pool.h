#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/buffer.h"

namespace gpt {

// The bookkeeping of a paged cache, without its numbers: a fixed number of blocks of kTokens tokens, each
// shared by any number of holders, and what each contains.
//
// A block's content is what a sequence computed for up to kTokens tokens in a row. It depends on these
// tokens and on all tokens before them, that is, on the block before: its parent. Blocks are named by
// serial numbers that are never used twice, so the parent's number stands for all earlier tokens exactly;
// no hash is ever trusted.
//
// A block nobody holds keeps its content, to be found again, until its memory is needed; the one that was
// let go first is taken first.
class BlockPool {
 public:
  static constexpr int64_t kTokens = 64;
  static constexpr int32_t kNone = -1;
  static constexpr uint64_t kRoot = 0;  // the parent of a sequence's first block, or from the top ~0, ~1, ...

  BlockPool() = default;
  explicit BlockPool(int64_t blocks);

  int64_t size() const { return size_; }
  int64_t available() const { return queued_ + size_ - used_; }  // blocks that nobody holds

  // An empty block after `parent`, held once; kNone when none is available.
  int32_t take(uint64_t parent);
  void hold(int32_t block);
  void release(int32_t block);
  // Notes the next token of a block, which must be held exactly once and not be full.
  void append(int32_t block, int32_t token);
  // Takes back all but the first n > 0 tokens of a block, which must be held exactly once. With fewer than it
  // had it has another serial number: blocks after it do not follow what comes now.
  void truncate(int32_t block, int64_t n);
  // Notes the tokens of `from`, the first n of them, in the empty block `to`.
  void append_from(int32_t from, int32_t to, int64_t n);

  // Forgets the content of all blocks after the parents from `first` to `last`, which nobody holds: no
  // sequence that begins with one of these parents finds anything.
  void forget_after(uint64_t first, uint64_t last);

  uint64_t serial(int32_t block) const { return at(block).serial; }
  uint64_t parent(int32_t block) const { return at(block).parent; }
  int64_t filled(int32_t block) const { return at(block).filled; }
  int32_t holders(int32_t block) const { return at(block).holders; }

  // The block after `parent` that begins with the most of `tokens`, and how many.
  struct Match {
    int32_t block = kNone;
    int64_t tokens = 0;
  };
  Match find(uint64_t parent, std::span<const int32_t> tokens) const;

 private:
  struct Block {
    uint64_t serial, parent;
    int32_t holders, filled;
    int32_t older, newer;  // in the queue of available blocks
    int32_t chained;       // the next of its bucket
    int32_t tokens[kTokens];
  };

  const Block& at(int32_t block) const { return memory_.as<Block>()[block]; }
  Block& at(int32_t block) { return memory_.as<Block>()[block]; }
  size_t bucket(uint64_t parent, int32_t first_token) const;
  void forget(int32_t block);
  void enqueue(int32_t block);
  void dequeue(int32_t block);

  Buffer memory_;  // of all blocks; zero, and no memory of the machine, until they are used
  int64_t size_ = 0;
  int64_t used_ = 0;  // the first ones, which were used at least once
  // Blocks with content by (parent, first token): few have both in common, and a block can be found by a
  // part of its tokens.
  std::vector<int32_t> buckets_;
  int32_t oldest_ = kNone, newest_ = kNone;
  int64_t queued_ = 0;
  uint64_t last_serial_ = kRoot;
};

}  // namespace gpt
