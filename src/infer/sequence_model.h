#pragma once

#include <cstdint>
#include <span>

#include "model/inference.h"

namespace gpt {

// What generation needs of a model: a fixed number of slots, each holding one sequence of token ids and
// whatever the model keeps of it (its key/value cache), in memory of a fixed size that all slots share.
//
// A slot's logits depend only on the ids appended to it since its last reset (and, after a copy, to the
// slot it was copied from) and the adapter that it was reset for, never on how they were split into calls, on
// what other slots hold, or on whether their beginning was reused.
class SequenceModel {
 public:
  virtual ~SequenceModel() = default;

  virtual const Backend& backend() const = 0;  // where it runs and its logits are read
  virtual int64_t vocab_size() const = 0;
  virtual int64_t n_ctx() const = 0;  // positions that attention can see
  virtual int slots() const = 0;

  // Whether a slot may grow past n_ctx: then each position sees the last n_ctx ones, itself included.
  // Models with learned positions cannot.
  virtual bool can_slide() const = 0;

  using Append = Inference::Append;  // ids for a slot, at most `room`
  // The most ids of one forward call; at least the slots.
  virtual int64_t max_rows() const { return INT64_MAX; }
  // Appends to each listed slot (none twice) and writes the wanted logits, in the order of the ids, to
  // consecutive rows of logits [>= wanted, V]. Unless the model can slide, no slot may exceed n_ctx. Throws
  // Error when memory is short; not for ids that fit into what `reserve` granted.
  virtual void forward(std::span<const Append> batch, const TensorView& logits) = 0;

  // Empties the slot, for a sequence with this adapter, one of `adapters()`; -1: none. It shares what is
  // remembered with sequences of the same salt alone; 0: none.
  virtual void reset(int slot, int adapter = -1, uint64_t salt = 0) = 0;
  virtual int adapters() const { return 0; }
  // Takes back all ids but the first n <= length, as if they had never been. What was appended within the
  // last `room` can always be taken back; throws Error where a slot past n_ctx has let go of what the next id
  // would see.
  virtual void truncate(int slot, int64_t n) = 0;
  virtual void copy(int from_slot, int to_slot) = 0;  // replaces to_slot's content by from_slot's
  virtual int64_t length(int slot) const = 0;         // ids appended since the slot was reset

  // The most ids that one forward call takes for a slot in one go.
  virtual int64_t room(int slot) const = 0;
  // Memory for the next n ids of a slot, n <= room(slot): false when there is not enough. With all other
  // slots empty there always is.
  virtual bool reserve(int slot, int64_t n) = 0;

  // Sequences of the past are remembered as long as their memory is not needed. Fills an empty slot with
  // the longest known beginning of ids, at most all but the last one; returns its length.
  virtual int64_t reuse(int slot, std::span<const int32_t> ids) = 0;
  // What `reuse` would find, and how much memory a sequence of these ids would take, in blocks.
  using Prospect = KvCache::Prospect;
  virtual Prospect prospect(std::span<const int32_t> ids, int adapter = -1, uint64_t salt = 0) const = 0;
  virtual int64_t available_blocks() const = 0;
};

}  // namespace gpt
