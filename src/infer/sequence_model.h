#pragma once

#include <cstdint>
#include <span>

namespace gpt {

// What generation needs of a model: a fixed number of slots, each holding one sequence of token ids and
// whatever the model keeps of it (its key/value cache).
//
// A slot's logits depend only on the ids appended to it since its last reset (and, after a copy, to the
// slot it was copied from), never on how they were split into calls or on what other slots hold.
class SequenceModel {
 public:
  virtual ~SequenceModel() = default;

  virtual int64_t vocab_size() const = 0;
  virtual int64_t n_ctx() const = 0;  // positions that attention can see
  virtual int slots() const = 0;

  // Whether a slot may grow past n_ctx: then each position sees the last n_ctx ones, itself included.
  // Models with learned positions cannot.
  virtual bool can_slide() const = 0;

  // Appends ids to a slot, 1 <= ids.size() <= n_ctx.
  struct Append {
    int slot;
    std::span<const int32_t> ids;
  };
  // Appends to each listed slot (none twice) and writes the logits after the last id of each to
  // logits[batch.size(), V]; null: none are wanted. Unless the model can slide, no slot may exceed n_ctx.
  virtual void forward(std::span<const Append> batch, float* logits) = 0;

  virtual void reset(int slot) = 0;                   // empties the slot
  virtual void copy(int from_slot, int to_slot) = 0;  // replaces to_slot's content by from_slot's
  virtual int64_t length(int slot) const = 0;         // ids appended since the slot was reset
};

}  // namespace gpt
