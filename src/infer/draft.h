#pragma once

#include <vector>

#include "infer/proposer.h"
#include "infer/sampler.h"
#include "infer/sequence_model.h"

namespace gpt {

// Drafts the most likely tokens of a smaller model with the same vocabulary. The draft model has one slot for
// each slot of the engine. After each call, a slot of the draft model holds the sequence of the engine's slot
// with the same number. If the engine then samples a token that differs from the draft, the slot of the draft
// model is truncated.
//
// Drafts no tokens for a sequence that is longer than the draft model's context. If the draft model uses a
// sliding window, it drafts one token for such a sequence, because a window that has slid cannot be
// truncated. Between two engine steps, the draft model computes at most step_rows prompt ids. A sequence
// receives no draft tokens while the draft model still computes its prompt, or if memory is short.
class DraftProposer final : public Proposer {
 public:
  // Never drafts ids >= vocab_size. Keeps a reference to the model and resets its slots.
  DraftProposer(SequenceModel& model, int64_t vocab_size, int64_t step_rows);

  bool has(const Ask& ask) override;
  void propose(std::span<const Ask> asks) override;
  void forget(int slot) override;

 private:
  struct Slot {
    bool open = false;
    size_t certain = 0;            // number of the sequence's ids at the last call
    std::vector<int32_t> guessed;  // draft tokens appended after those ids
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
  std::vector<const Ask*> active_, next_;  // sequences that need another draft token
  std::vector<Draw> draws_;
  Buffer logits_;
};

}  // namespace gpt
