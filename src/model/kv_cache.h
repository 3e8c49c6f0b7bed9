#pragma once

#include <span>
#include <vector>

#include "model/block_pool.h"
#include "model/config.h"
#include "tensor/buffer.h"

namespace gpt {

// Keys and values of earlier tokens for a number of sequences ("slots"). Memory comes in blocks of kBlock
// tokens from one pool; a slot takes blocks as it grows, and its block table says where its tokens are.
//
// Slots share blocks: a copy takes no memory, and a new sequence begins with the blocks of any earlier one
// that began with the same tokens (`reuse`). A block that others hold too is copied before it is written.
// Blocks of a sequence that is gone stay until their memory is needed.
//
// A slot holds the last `capacity` tokens: when a sequence grows past it, its oldest blocks return to the
// pool (sliding window).
class KvCache {
 public:
  static constexpr int64_t kBlock = BlockPool::kTokens;

  struct Options {
    int slots = 1;
    int64_t capacity = 0;  // tokens that a sequence sees
    int64_t tokens = 0;    // memory of all slots together, at least one sequence; 0: all slots full
    DType dtype = DType::f32;
  };
  KvCache() = default;
  KvCache(const ModelConfig& config, const Options& options, Device* device);

  int slots() const { return static_cast<int>(slots_.size()); }
  int64_t capacity() const { return capacity_; }
  int64_t size() const { return pool_.size() * kBlock; }  // tokens of all slots together
  int64_t length(int slot) const { return at(slot).length; }
  // The row of token t of a slot, for which memory is reserved, in every layer.
  int64_t row(int slot, int64_t t) const;
  // The page table of a slot: the pages of its tokens from page `first_page` on, in order.
  std::span<const int32_t> pages(int slot) const { return at(slot).table; }
  int64_t first_page(int slot) const { return at(slot).first; }

  // Sees to it that the next n tokens of a slot have memory which is theirs alone. False when the pool is
  // short; then the slot is as it was.
  bool reserve(int slot, int64_t n);
  // Counts tokens whose keys and values the caller has computed, in memory that is reserved: from now on
  // other slots may reuse them.
  void append(int slot, std::span<const int32_t> tokens);
  // Takes back all tokens but the first n; their memory is written again, or goes back to the pool. False
  // when the window has moved past what the next token would see; then the slot is as it was.
  bool truncate(int slot, int64_t n);
  // `root` names what, besides its tokens, a sequence's keys and values depend on: only sequences with the
  // same one share blocks.
  void reset(int slot, uint64_t root = BlockPool::kRoot);
  // Forgets what was computed under roots from `first` to `last`, which no slot has.
  void forget(uint64_t first, uint64_t last) { pool_.forget_after(first, last); }
  void copy(int from, int to);  // `to` becomes an equal, independent sequence

  // Fills an empty slot with what is known of a sequence: keys and values of its first tokens, of all
  // but the last one at most. Returns how many.
  int64_t reuse(int slot, std::span<const int32_t> tokens);
  // What `reuse` would do, and the blocks that a sequence of all these tokens would take from the pool.
  struct Prospect {
    int64_t known;
    int64_t blocks;
  };
  Prospect prospect(std::span<const int32_t> tokens, uint64_t root = BlockPool::kRoot) const;
  int64_t available_blocks() const { return pool_.available(); }

  TensorView keys(int64_t layer) const { return keys_[static_cast<size_t>(layer)]; }      // [rows,kv_dim]
  TensorView values(int64_t layer) const { return values_[static_cast<size_t>(layer)]; }  // [rows,kv_dim]
  // [rows,Hkv] of an int8 cache, else absent.
  TensorView key_scales(int64_t layer) const { return key_scales_[static_cast<size_t>(layer)]; }
  TensorView value_scales(int64_t layer) const { return value_scales_[static_cast<size_t>(layer)]; }

  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }
  // Of all layers, for a whole number of blocks. Throws invalid_argument when blocks of q4_0 do not fit
  // head_dim.
  static int64_t bytes(const ModelConfig& config, int64_t tokens, DType dtype);
  // The most blocks that a sequence of which `capacity` tokens are seen ever holds.
  static int64_t blocks_of_sequence(int64_t capacity);

 private:
  struct Slot {
    int64_t length = 0;
    int64_t first = 0;  // the first block that is still held, by its place in the sequence
    uint64_t root = BlockPool::kRoot;
    std::vector<int32_t> table;  // blocks from `first` on
    int64_t end() const { return first + static_cast<int64_t>(table.size()); }
  };

  const Slot& at(int slot) const { return slots_[static_cast<size_t>(slot)]; }
  Slot& at(int slot) { return slots_[static_cast<size_t>(slot)]; }
  // The block of token t.
  static int32_t block_of(const Slot& slot, int64_t t) {
    return slot.table[static_cast<size_t>(t / kBlock - slot.first)];
  }
  uint64_t last_serial(const Slot& slot) const;
  bool last_is_shared(const Slot& slot) const;
  void release_unseen(Slot& slot);
  void release_unused(Slot& slot);
  void own_last(Slot& slot);
  void copy_rows(int32_t from, int32_t to, int64_t n);

  int64_t capacity_ = 0;
  BlockPool pool_;
  Buffer buffer_;
  std::vector<TensorView> keys_, values_, key_scales_, value_scales_;
  std::vector<Slot> slots_;
};

}  // namespace gpt
