#pragma once

#include <cstdint>
#include <span>

#include "model/inference.h"

namespace gpt {

// Interface of a model for generation. It has a fixed number of slots; each slot holds one sequence of token
// ids and its state (the KV cache), in a memory pool of fixed size that all slots share.
//
// The logits of a slot depend only on its adapter and on the ids appended since its last reset (and, after a
// copy, on those of the slot it was copied from). They do not depend on how ids were split into calls, on
// other slots, or on whether a prefix was reused.
class SequenceModel {
 public:
  virtual ~SequenceModel() = default;

  virtual const Backend& backend() const = 0;  // runs the model and holds its logits
  virtual int64_t vocab_size() const = 0;
  virtual int64_t n_ctx() const = 0;  // maximum number of positions that attention sees
  virtual int slots() const = 0;

  // Returns whether a slot may grow past n_ctx. Then each position sees the last n_ctx positions, including
  // itself. Models with learned positions do not support this.
  virtual bool can_slide() const = 0;

  using Append = Inference::Append;  // ids for a slot, at most `room`
  // Returns the maximum ids of a forward call, at least the number of slots.
  virtual int64_t max_rows() const { return INT64_MAX; }
  // Appends ids to each listed slot (each at most once) and writes the wanted logits, in the order of the
  // ids, to consecutive rows of logits [>= wanted, V]. Unless the model can slide, no slot may exceed n_ctx.
  // Throws Error if memory is short, but never for ids that were reserved.
  virtual void forward(std::span<const Append> batch, const TensorView& logits) = 0;

  // Empties the slot for a new sequence with this adapter, one of `adapters()`; -1: none. The sequence shares
  // prefixes only with sequences of the same salt; 0: no salt.
  virtual void reset(int slot, int adapter = -1, uint64_t salt = 0) = 0;
  virtual int adapters() const { return 0; }
  // Removes all ids except the first n <= length, as if they had never been appended. The ids of the last
  // append can always be removed. Throws Error if a slot past n_ctx has freed keys that the next id would
  // see.
  virtual void truncate(int slot, int64_t n) = 0;
  // Whether `truncate` can remove the ids of the last append. False if layers have a state for each slot,
  // which cannot be rolled back (LayerConfig::slot_state).
  virtual bool can_roll_back() const { return true; }
  virtual void copy(int from_slot, int to_slot) = 0;  // replaces the content of to_slot by that of from_slot
  virtual int64_t length(int slot) const = 0;         // number of ids appended since the last reset

  // Returns the maximum ids that a forward call can append to a slot.
  virtual int64_t room(int slot) const = 0;
  // Reserves memory for the next n ids of a slot, n <= room(slot). Returns false if there is not enough
  // memory, which cannot happen if all other slots are empty.
  virtual bool reserve(int slot, int64_t n) = 0;

  // Fills an empty slot with the longest cached prefix of ids, excluding the last id, and returns its length.
  // Earlier sequences stay cached as long as their memory is not needed.
  virtual int64_t reuse(int slot, std::span<const int32_t> ids) = 0;
  // Returns the prefix length that `reuse` would find, and the cache pages that a sequence of these ids
  // needs.
  using Prospect = KvCache::Prospect;
  virtual Prospect prospect(std::span<const int32_t> ids, int adapter = -1, uint64_t salt = 0) const = 0;
  virtual int64_t available_blocks() const = 0;
};

}  // namespace gpt
