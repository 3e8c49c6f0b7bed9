#pragma once

#include <cstdint>
#include <span>

#include "model/inference.h"

namespace gpt {

// Interface of a model for generation. A model has a fixed number of slots. Each slot holds one sequence of
// token ids and its state (the KV cache). All slots share a memory pool of fixed size.
//
// The logits of a slot depend only on its adapter and on the ids appended since its last reset (after a copy,
// also on the ids of the source slot). The logits do not depend on how ids were split into calls, on other
// slots, or on prefix reuse.
class SequenceModel {
 public:
  virtual ~SequenceModel() = default;

  virtual const Backend& backend() const = 0;  // runs the model and holds its logits
  virtual int64_t vocab_size() const = 0;
  virtual int64_t n_ctx() const = 0;  // maximum number of positions that attention sees
  virtual int slots() const = 0;

  // Returns true if a slot may grow past n_ctx. Each position then attends to the last n_ctx positions,
  // including itself. Models with learned positions do not support this.
  virtual bool can_slide() const = 0;

  using Append = Inference::Append;  // ids for a slot, at most room(slot)
  // Returns the maximum number of ids per forward call, which is at least the number of slots.
  virtual int64_t max_rows() const { return INT64_MAX; }
  // Appends ids to the slots in `batch`. Each slot may occur only once. Writes the wanted logits to
  // consecutive rows of logits [>= wanted, V], in the order of the ids. A slot must not exceed n_ctx unless
  // can_slide() is true. Throws Error if memory runs out, but never for ids whose memory was reserved.
  virtual void forward(std::span<const Append> batch, const TensorView& logits) = 0;

  // Empties the slot for a new sequence. `adapter` is an index below `adapters()`; -1: none. The sequence
  // shares prefixes only with sequences that have the same salt (0: no salt).
  virtual void reset(int slot, int adapter = -1, uint64_t salt = 0) = 0;
  virtual int adapters() const { return 0; }
  // Removes all ids after the first n, as if they had never been appended; n <= length. The ids of the last
  // append can always be removed. Throws Error if a slot longer than n_ctx has freed cache entries that the
  // next id would attend to.
  virtual void truncate(int slot, int64_t n) = 0;
  // Returns true if truncate(slot, n) can remove the ids after the first n.
  virtual bool can_truncate(int, int64_t) const { return true; }
  // Returns true if `truncate` can remove the ids of the last append. Returns false for models whose layers
  // keep a state per slot that cannot be rolled back (LayerConfig::slot_state).
  virtual bool can_roll_back() const { return true; }
  // Replaces the content of to_slot by a copy of from_slot.
  virtual void copy(int from_slot, int to_slot) = 0;
  virtual int64_t length(int slot) const = 0;  // number of ids appended since the last reset

  // Returns the maximum number of ids that a forward call can append to a slot.
  virtual int64_t room(int slot) const = 0;
  // Reserves memory for the next n ids of a slot, where n <= room(slot). Returns false if memory is short.
  // Always succeeds if all other slots are empty.
  virtual bool reserve(int slot, int64_t n) = 0;

  // Fills an empty slot with the longest cached prefix of `ids`, excluding the last id, and returns its
  // length. Earlier sequences stay cached as long as their memory is not needed.
  virtual int64_t reuse(int slot, std::span<const int32_t> ids) = 0;
  // Returns the prefix length that `reuse` would find and the number of cache pages that a sequence of these
  // ids needs.
  using Prospect = KvCache::Prospect;
  virtual Prospect prospect(std::span<const int32_t> ids, int adapter = -1, uint64_t salt = 0) const = 0;
  virtual int64_t available_blocks() const = 0;
};

}  // namespace gpt
