#pragma once

#include <span>
#include <vector>

#include "model/block_pool.h"
#include "model/config.h"
#include "tensor/buffer.h"

namespace gpt {

// A paged KV cache for a fixed number of sequences, called slots. The memory is divided into cache pages of
// kBlock tokens. (The code calls a cache page a block.) A slot takes pages from a pool as it grows. The page
// table of a slot maps tokens to pages.
//
// Slots can share pages. Copying a slot takes no memory, and a new sequence can start with the pages of an
// earlier sequence with the same prefix (`reuse`). A shared page is copied before a slot writes to it. Pages
// of finished sequences stay available for reuse until their memory is needed.
//
// A slot holds the last `capacity` tokens of its sequence. When a sequence grows past the capacity, its
// oldest pages return to the pool (sliding window).
//
// Layers with the same window form a window class, which has its own pool and page tables. Several layers can
// read the keys and values of one layer. All of these layers then belong to the window class with the longest
// of their windows, and only the layer that computes the keys and values has cache rows. Class 0 has the
// longest window and always holds the last `capacity` tokens. Every other class holds the tokens in its
// window and kBlock earlier tokens. A prefix can be reused if every class still holds the tokens that the
// next token attends to.
//
// A layer may also store a state per slot. A state cannot be rolled back. For models with states, `reuse`
// therefore finds no prefixes, and `truncate` can only remove all tokens of a slot.
class KvCache {
 public:
  static constexpr int64_t kBlock = BlockPool::kTokens;

  struct Options {
    int slots = 1;
    int64_t capacity = 0;  // maximum number of tokens that a query can attend to
    // Size of the pool of class 0 in tokens, at least enough for one sequence. 0: enough for `capacity`
    // tokens in every slot.
    int64_t tokens = 0;
    DType dtype = DType::f32;
    int64_t step = 0;  // maximum number of tokens of a sequence in one step; 0: capacity
  };
  KvCache() { classes_.resize(1); }
  KvCache(const ModelConfig& config, const Options& options, Device* device);

  int slots() const { return static_cast<int>(slots_.size()); }
  int64_t capacity() const { return capacity_; }
  // Returns the size of the pool of class 0 in tokens, for all slots together.
  int64_t size() const { return classes_.front().pool.size() * kBlock; }
  int64_t length(int slot) const { return at(slot).length; }
  size_t classes() const { return classes_.size(); }
  size_t class_of(int64_t layer) const { return class_of_[static_cast<size_t>(layer)]; }
  // Returns the row of token t of a slot. All layers of a window class use the same row. Memory for the token
  // must be reserved.
  int64_t row(int slot, int64_t t, size_t window_class = 0) const;
  // Returns the page table of a slot for a window class. The first entry of the table is page `first_page` of
  // the sequence.
  std::span<const int32_t> pages(int slot, size_t window_class = 0) const {
    return at(slot).tables[window_class].blocks;
  }
  int64_t first_page(int slot, size_t window_class = 0) const { return at(slot).tables[window_class].first; }

  // Reserves memory for the next n tokens of a slot. No other slot shares this memory. Classes other than 0
  // reserve memory for at most Options::step tokens. Returns false without reserving memory if a pool has too
  // few free pages.
  bool reserve(int slot, int64_t n);
  // Records tokens after the caller has written their keys and values to reserved memory. After this call,
  // other slots may reuse the tokens.
  void append(int slot, std::span<const int32_t> tokens);
  // Removes all tokens except the first n. Returns false without changing the slot if can_truncate returns
  // false.
  bool truncate(int slot, int64_t n);
  // Returns true if every window class still holds all tokens that token n attends to. For a model with
  // states, also requires that n is 0 or the length of the sequence.
  bool can_truncate(int slot, int64_t n) const;
  // Empties a slot. Sequences share pages only if they have the same `root`. Use different roots if keys and
  // values differ for the same tokens, for example because of different adapters.
  void reset(int slot, uint64_t root = BlockPool::kRoot);
  // Prevents the reuse of all pages that were computed with a root in the range `first` to `last`. No slot
  // may use a root in this range.
  void forget(uint64_t first, uint64_t last);
  void copy(int from, int to);  // makes `to` an independent copy of `from`

  // Fills an empty slot with the longest cached prefix of `tokens`. The prefix does not include the last
  // token. Returns the length of the prefix.
  int64_t reuse(int slot, std::span<const int32_t> tokens);
  // Estimated cache use of a new sequence with given tokens.
  struct Prospect {
    int64_t known;   // length of the prefix that `reuse` would find
    int64_t blocks;  // number of pages that the tokens would take from the pool of class 0
  };
  Prospect prospect(std::span<const int32_t> tokens, uint64_t root = BlockPool::kRoot) const;
  // Returns the number of free pages of a class. All pools have the same number of pages, except that a pool
  // never has more pages than all slots together can fill.
  int64_t available_blocks(size_t window_class = 0) const { return classes_[window_class].pool.available(); }

  // The keys and values of a layer, [rows,kv_dim]. Absent if the layer reads the keys and values of another
  // layer.
  TensorView keys(int64_t layer) const { return keys_[static_cast<size_t>(layer)]; }
  TensorView values(int64_t layer) const { return values_[static_cast<size_t>(layer)]; }
  // The scales of keys and values, [rows,Hkv]. Absent unless the dtype of the cache is int8.
  TensorView key_scales(int64_t layer) const { return key_scales_[static_cast<size_t>(layer)]; }
  TensorView value_scales(int64_t layer) const { return value_scales_[static_cast<size_t>(layer)]; }

  // The states of a layer, [slots,slot_state] in fp32. Absent for a layer without a state. `reset` clears the
  // state of a slot, and `copy` copies it.
  TensorView state(int64_t layer) const;
  bool has_states() const { return !states_.empty(); }

  int64_t bytes() const { return static_cast<int64_t>(buffer_.size()); }
  // Returns the size in bytes of a cache with these options, without allocating it.
  static int64_t bytes(const ModelConfig& config, const Options& options);
  // Returns the size in bytes of the keys and values of `tokens` tokens in all layers, rounded up to whole
  // pages. Throws invalid_argument if the dtype is q4_0 and head_dim is not a multiple of its quantization
  // block size.
  static int64_t bytes(const ModelConfig& config, int64_t tokens, DType dtype);
  // Returns the largest value of Options::tokens, in whole pages, for which the cache needs at most `bytes`
  // bytes.
  static int64_t tokens_within(const ModelConfig& config, Options options, int64_t bytes);
  // Returns the maximum number of pages that a sequence holds in a cache with this capacity.
  static int64_t blocks_of_sequence(int64_t capacity);

 private:
  struct WindowClass {
    int64_t window = 0;  // window size: number of tokens that a token attends to
    int64_t spare = 0;   // number of earlier tokens to keep, so that a slot can be truncated
    BlockPool pool = {};
    std::vector<size_t> layers = {};
  };
  struct Table {
    int64_t first = 0;            // index of the first page that is still held; page 0 starts the sequence
    std::vector<int32_t> blocks;  // pages from `first` on
    int64_t end() const { return first + static_cast<int64_t>(blocks.size()); }
    // Returns the page of token t.
    int32_t of(int64_t t) const { return blocks[static_cast<size_t>(t / kBlock - first)]; }
  };
  struct Slot {
    int64_t length = 0;
    uint64_t root = BlockPool::kRoot;
    std::vector<Table> tables;  // one table per window class
  };
  struct Layout;

  const Slot& at(int slot) const { return slots_[static_cast<size_t>(slot)]; }
  Slot& at(int slot) { return slots_[static_cast<size_t>(slot)]; }
  int64_t most_reserved(const Slot& slot, size_t window_class, int64_t n) const;
  uint64_t parent_of(const Slot& slot, int64_t block) const;
  bool last_is_shared(const Slot& slot, size_t window_class) const;
  void release_unseen(Slot& slot);
  void release_unused(Slot& slot);
  bool own_last(Slot& slot, size_t window_class, int64_t n);
  void copy_rows(const WindowClass& of, int32_t from, int32_t to, int64_t n);
  int64_t known(std::span<const int32_t> tokens, uint64_t root) const;
  bool take_known(Slot& slot, std::span<const int32_t> tokens);
  bool own_known(Slot& slot, int64_t n);
  void copy_states(int64_t from, int64_t to);

  int64_t capacity_ = 0, step_ = 0;
  std::vector<WindowClass> classes_;
  std::vector<size_t> class_of_;  // class of each layer
  Buffer buffer_;
  std::vector<TensorView> keys_, values_, key_scales_, value_scales_;
  // The state of each layer, [slots + 1,slot_state]. The last row is always zero. The vector is empty if no
  // layer has a state.
  std::vector<TensorView> states_;
  std::vector<Slot> slots_;
};

}  // namespace gpt
