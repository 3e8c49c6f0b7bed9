#pragma once

#include <span>
#include <vector>

#include "model/block_pool.h"
#include "model/config.h"
#include "tensor/buffer.h"

namespace gpt {

// A paged KV cache for a fixed number of sequences ("slots"). Memory is divided into cache pages of kBlock
// tokens, called blocks in the code. A slot takes blocks from a pool as it grows, and its page table maps its
// tokens to blocks.
//
// Slots share blocks. A copied slot takes no memory, and a new sequence can start with the blocks of an
// earlier one that has the same prefix (`reuse`). A shared block is copied before a slot writes to it. Blocks
// of finished sequences stay available for reuse until their memory is needed.
//
// A slot holds the last `capacity` tokens. When a sequence grows past that, its oldest blocks return to the
// pool (sliding window).
//
// Layers with the same window form a class, which has its own pool and page tables. A layer whose keys and
// values are shared has the longest window of the layers that read them; the readers have its class and no
// rows of their own. Class 0 has the longest window and always holds the last `capacity` tokens. Every other
// class holds the tokens of its window and kBlock earlier ones. A prefix can be reused if every class still
// holds the tokens that the next token sees.
//
// A layer may also store a state per slot. A state cannot be rolled back. Models with states therefore reuse
// no prefixes, and `truncate` can only remove all tokens of a slot.
class KvCache {
 public:
  static constexpr int64_t kBlock = BlockPool::kTokens;

  struct Options {
    int slots = 1;
    int64_t capacity = 0;  // maximum tokens of a sequence that a query can see
    int64_t tokens = 0;    // size of the pool of class 0 in tokens, at least one sequence; 0: all slots full
    DType dtype = DType::f32;
    int64_t step = 0;  // maximum tokens of a sequence in one step; 0: capacity
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
  // Returns the row of token t of a slot in the tensors of the class's layers. Requires reserved memory.
  int64_t row(int slot, int64_t t, size_t window_class = 0) const;
  // Returns the page table of a slot in a class: the blocks of its tokens, from page `first_page` on.
  std::span<const int32_t> pages(int slot, size_t window_class = 0) const {
    return at(slot).tables[window_class].blocks;
  }
  int64_t first_page(int slot, size_t window_class = 0) const { return at(slot).tables[window_class].first; }

  // Reserves unshared memory for the next n tokens of a slot (in classes other than 0 for at most
  // Options::step tokens). Returns false, with nothing reserved, if a pool has too few free blocks.
  bool reserve(int slot, int64_t n);
  // Records tokens whose keys and values the caller has written to reserved memory. From now on other slots
  // may reuse them.
  void append(int slot, std::span<const int32_t> tokens);
  // Keeps only the first n tokens. Returns false, with the slot unchanged, if can_truncate returns false.
  bool truncate(int slot, int64_t n);
  // Returns whether every class still holds the tokens that token n sees. With states, n must also be 0 or
  // the length.
  bool can_truncate(int slot, int64_t n) const;
  // Empties a slot. Only sequences with the same `root` share blocks: it stands for everything besides the
  // tokens that keys and values depend on, such as the adapter.
  void reset(int slot, uint64_t root = BlockPool::kRoot);
  // Makes blocks computed under the roots `first` to `last` unavailable for reuse. No slot may have such a
  // root.
  void forget(uint64_t first, uint64_t last);
  void copy(int from, int to);  // `to` becomes an equal, independent sequence

  // Fills an empty slot with the longest cached prefix of `tokens`, which excludes at least the last token.
  // Returns the length of the prefix.
  int64_t reuse(int slot, std::span<const int32_t> tokens);
  // Estimate for a sequence of given tokens.
  struct Prospect {
    int64_t known;   // tokens that `reuse` would find
    int64_t blocks;  // blocks that all tokens would take from the pool of class 0
  };
  Prospect prospect(std::span<const int32_t> tokens, uint64_t root = BlockPool::kRoot) const;
  // Returns the free blocks of a class. Its pool is as large as that of class 0, or smaller if all slots
  // together cannot fill that many blocks.
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
  // Returns the maximum number of blocks that a sequence holds in a cache of this capacity.
  static int64_t blocks_of_sequence(int64_t capacity);

 private:
  struct WindowClass {
    int64_t window = 0;  // tokens that a token sees
    int64_t spare = 0;   // earlier tokens that are also held, so that the slot can be truncated
    BlockPool pool = {};
    std::vector<size_t> layers = {};
  };
  struct Table {
    int64_t first = 0;            // index in the sequence of the first block that is still held
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
      states_;  // by layer, [slots + 1,slot_state], the last row zero; empty: no layer has a state
  std::vector<Slot> slots_;
};

}  // namespace gpt
