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
//
// Layers with the same window form a class, which has its own pool and block tables. Class 0 has the longest
// window and holds the last `capacity` tokens. Every other class holds the tokens of its window and kBlock
// earlier ones. A prefix can be reused if every class still holds the tokens that the next token sees.
//
// A layer may also store a state per slot. A state cannot be rolled back. Models with states therefore reuse
// no prefixes, and `truncate` can only remove all tokens of a slot.
class KvCache {
 public:
  static constexpr int64_t kBlock = BlockPool::kTokens;

  struct Options {
    int slots = 1;
    int64_t capacity = 0;  // tokens that a sequence sees
    int64_t tokens = 0;    // memory of all slots together, at least one sequence; 0: all slots full
    DType dtype = DType::f32;
    int64_t step = 0;  // the most tokens of a sequence that are computed in one step; 0: capacity
  };
  KvCache() { classes_.resize(1); }
  KvCache(const ModelConfig& config, const Options& options, Device* device);

  int slots() const { return static_cast<int>(slots_.size()); }
  int64_t capacity() const { return capacity_; }
  // Tokens of all slots together, in class 0.
  int64_t size() const { return classes_.front().pool.size() * kBlock; }
  int64_t length(int slot) const { return at(slot).length; }
  size_t classes() const { return classes_.size(); }
  size_t class_of(int64_t layer) const { return class_of_[static_cast<size_t>(layer)]; }
  // The row of token t of a slot, for which memory is reserved, in the layers of a class.
  int64_t row(int slot, int64_t t, size_t window_class = 0) const;
  // The page table of a slot in a class: the pages of its tokens from page `first_page` on, in order.
  std::span<const int32_t> pages(int slot, size_t window_class = 0) const {
    return at(slot).tables[window_class].blocks;
  }
  int64_t first_page(int slot, size_t window_class = 0) const { return at(slot).tables[window_class].first; }

  // Reserves memory that no other slot shares for the next n tokens of a slot; in classes other than 0, for
  // at most one step of them. Returns false when a pool is short; the slot is then unchanged.
  bool reserve(int slot, int64_t n);
  // Counts tokens whose keys and values the caller has computed, in memory that is reserved: from now on
  // other slots may reuse them.
  void append(int slot, std::span<const int32_t> tokens);
  // Removes all tokens but the first n. Returns false when can_truncate does; the slot is then unchanged.
  bool truncate(int slot, int64_t n);
  // Whether every class still holds what the token after the first n sees; with states: n is 0 or the length.
  bool can_truncate(int slot, int64_t n) const;
  // `root` names what, besides its tokens, a sequence's keys and values depend on: only sequences with the
  // same one share blocks.
  void reset(int slot, uint64_t root = BlockPool::kRoot);
  // Forgets what was computed under roots from `first` to `last`, which no slot has.
  void forget(uint64_t first, uint64_t last);
  void copy(int from, int to);  // `to` becomes an equal, independent sequence

  // Fills an empty slot with what is known of a sequence: keys and values of its first tokens, of all
  // but the last one at most. Returns how many.
  int64_t reuse(int slot, std::span<const int32_t> tokens);
  // Tokens that `reuse` would find, and blocks that a sequence of all these tokens would take from the pool
  // of class 0.
  struct Prospect {
    int64_t known;
    int64_t blocks;
  };
  Prospect prospect(std::span<const int32_t> tokens, uint64_t root = BlockPool::kRoot) const;
  // The other pools have as many blocks as the pool of class 0, or as many as all slots can hold.
  int64_t available_blocks(size_t window_class = 0) const { return classes_[window_class].pool.available(); }

  // [rows,kv_dim]; absent for a layer that reads another layer's keys and values.
  TensorView keys(int64_t layer) const { return keys_[static_cast<size_t>(layer)]; }
  TensorView values(int64_t layer) const { return values_[static_cast<size_t>(layer)]; }
  // [rows,Hkv] of an int8 cache, else absent.
  TensorView key_scales(int64_t layer) const { return key_scales_[static_cast<size_t>(layer)]; }
  TensorView value_scales(int64_t layer) const { return value_scales_[static_cast<size_t>(layer)]; }

  // [slots,slot_state] fp32; absent for a layer without a state. `reset` clears the state of a slot and
  // `copy` copies it.
  TensorView state(int64_t layer) const;
  bool has_states() const { return !states_.empty(); }

  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }
  // Returns `bytes` of a cache with these options without allocating it.
  static int64_t bytes(const ModelConfig& config, const Options& options);
  // Returns the bytes of this many tokens in all layers, in whole blocks, without states. Throws
  // invalid_argument when blocks of q4_0 do not fit head_dim.
  static int64_t bytes(const ModelConfig& config, int64_t tokens, DType dtype);
  // Returns the largest `tokens`, in whole blocks, for which a cache takes at most `bytes`.
  static int64_t tokens_within(const ModelConfig& config, Options options, int64_t bytes);
  // The most blocks that a sequence of which `capacity` tokens are seen ever holds.
  static int64_t blocks_of_sequence(int64_t capacity);

 private:
  struct WindowClass {
    int64_t window = 0;  // tokens that a token sees
    int64_t spare = 0;   // older tokens that are held, so that the last ones can be taken back
    BlockPool pool = {};
    std::vector<size_t> layers = {};
  };
  struct Table {
    int64_t first = 0;            // the first block that is still held, by its place in the sequence
    std::vector<int32_t> blocks;  // from `first` on
    int64_t end() const { return first + static_cast<int64_t>(blocks.size()); }
    // The block of token t.
    int32_t of(int64_t t) const { return blocks[static_cast<size_t>(t / kBlock - first)]; }
  };
  struct Slot {
    int64_t length = 0;
    uint64_t root = BlockPool::kRoot;
    std::vector<Table> tables;  // by class
  };
  struct Layout;

  const Slot& at(int slot) const { return slots_[static_cast<size_t>(slot)]; }
  Slot& at(int slot) { return slots_[static_cast<size_t>(slot)]; }
  int64_t most_reserved(const Slot& slot, size_t window_class, int64_t n) const;
  uint64_t parent_of(const Slot& slot, int64_t block) const;
  bool last_is_shared(const Slot& slot, size_t window_class) const;
  void release_unseen(Slot& slot);
  void release_unused(Slot& slot);
  void own_last(Slot& slot, size_t window_class);
  void copy_rows(const WindowClass& of, int32_t from, int32_t to, int64_t n);
  int64_t known(std::span<const int32_t> tokens, uint64_t root) const;
  bool take_known(Slot& slot, std::span<const int32_t> tokens);
  bool own_known(Slot& slot, int64_t n);
  void copy_states(int64_t from, int64_t to);

  int64_t capacity_ = 0, step_ = 0;
  std::vector<WindowClass> classes_;
  std::vector<size_t> class_of_;  // by layer
  Buffer buffer_;
  std::vector<TensorView> keys_, values_, key_scales_, value_scales_;
  std::vector<TensorView>
      states_;  // by layer, [slots + 1,slot_state], the last row zero; empty: none has any
  std::vector<Slot> slots_;
};

}  // namespace gpt
