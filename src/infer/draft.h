#pragma once

#include <vector>

#include "infer/proposer.h"
#include "infer/sampler.h"
#include "infer/sequence_model.h"

namespace gpt {

// Drafts the most likely tokens of a smaller model with the same vocabulary. Its slots mirror those of the
// engine: each holds the sequence of the engine's slot with the same number, as of the last call, and is
// truncated if the engine's model sampled a different token.
//
// Drafts no tokens for a sequence beyond its own context (one token if its window slides, since a slid window
// cannot be truncated), while it computes a long prompt (at most step_rows ids between two steps), or if it
// lacks memory.
class DraftProposer final : public Proposer {
 public:
  // vocab_size: ids >= vocab_size are never drafted. Keeps a reference to the model and resets its slots.
  DraftProposer(SequenceModel& model, int64_t vocab_size, int64_t step_rows);

  bool has(const Ask& ask) override;
  void propose(std::span<const Ask> asks) override;
  void forget(int slot) override;

 private:
  struct Slot {
    bool open = false;
    size_t certain = 0;            // ids of the sequence at the last call
    std::vector<int32_t> guessed;  // draft tokens appended after them
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
