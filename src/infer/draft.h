#pragma once

#include <vector>

#include "infer/proposer.h"
#include "infer/sampler.h"
#include "infer/sequence_model.h"

namespace gpt {

// Proposes what a smaller model of the same tokens finds likeliest. Its slots follow those of the engine:
// each holds the sequence of the slot with the same number as far as it was asked about it, and takes back
// what the engine's model did not draw.
//
// It proposes nothing for a sequence beyond its own context, or one token where its window slides: there is
// no way back. Nor does it while it still reads a long prompt, at most step_rows ids between two steps, or
// where it lacks memory.
class DraftProposer final : public Proposer {
 public:
  // vocab_size: ids from here on are never proposed. Refers to the model, whose slots are emptied.
  DraftProposer(SequenceModel& model, int64_t vocab_size, int64_t step_rows);

  bool has(const Ask& ask) override;
  void propose(std::span<const Ask> asks) override;
  void forget(int slot) override;

 private:
  struct Slot {
    bool open = false;
    size_t certain = 0;            // ids of the sequence when it was last asked about
    std::vector<int32_t> guessed;  // what was appended after them
  };
  Slot& at(int slot) { return slots_[static_cast<size_t>(slot)]; }
  void open(const Ask& ask);
  void take_back(const Ask& ask);
  bool follow(const Ask& ask, int64_t& rows_left);
  void draw();
  void feed_guesses();

  SequenceModel& model_;
  int64_t vocab_size_, step_rows_;
  Sampler sampler_;
  SamplingParams greedy_;
  std::vector<Slot> slots_;
  std::vector<SequenceModel::Append> batch_;
  std::vector<const Ask*> active_, next_;  // whose next token the model is asked for
  std::vector<Draw> draws_;
  Buffer logits_;
};

}  // namespace gpt
