#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "infer/proposer.h"
#include "infer/sequence_model.h"
#include "infer/step_cost.h"

namespace gpt {

// Options of speculative decoding. A step also computes the logits after the draft tokens. An accepted draft
// token therefore needs no separate step. Results are bit-identical to those without speculation.
struct Speculation {
  enum class Source : uint8_t {
    off,
    ngram,  // tokens that followed an earlier occurrence of the last tokens in the sequence
    draft   // the most likely tokens of a smaller model
  };
  Source source = Source::off;
  int64_t max_tokens = 16;  // maximum draft tokens per sequence and step, 1 to kMostProposals
  // The draft model for Source::draft. The draft model must have the same vocabulary and at least as many
  // slots as the engine's model. The draft model must outlive the engine, and the engine uses all of its
  // slots.
  SequenceModel* draft = nullptr;
  double draft_cost = 0;  // cost of a step of the draft model relative to a step of the engine's model
  // True to estimate the cost of a step from measured times; false to use the initial estimate of StepCost.
  bool measures_steps = true;
};
// Parses "off", "ngram" or "draft". Throws invalid_argument for other names.
Speculation::Source parse_speculation(std::string_view name);

// Tracks the recent acceptance rate of a sequence's draft tokens.
class Acceptance {
 public:
  void learn(int64_t proposed, int64_t accepted);
  // Returns the estimated probability that a draft token is accepted if all draft tokens before it were
  // accepted.
  double rate() const { return hits_ / tries_; }
  // Called for a step in which drafting is not worth its cost. Returns true once every `interval` steps. The
  // caller then drafts one token to check whether the acceptance rate has changed.
  bool tries_again(double interval);

 private:
  // The initial counts are small, so that measurements soon dominate.
  double hits_ = 0.5, tries_ = 1;
  double waited_ = std::numeric_limits<double>::infinity();  // makes the first trial immediate
};

// Decides the number of draft tokens for each sequence of a step, and calls the drafter.
//
// The cost of a step is measured in rows. The cost consists of a constant for reading the weights (StepCost)
// and the number of computed rows. A step of the draft model costs a fixed fraction of a step of the engine's
// model. A draft token is added if it lowers the expected cost per generated token: its acceptance
// probability must exceed its cost divided by the cost per token of the step so far. If the acceptance rate
// is high and few sequences run, this rule yields many draft tokens. If the additional rows cost more than
// the fewer reads of the weights save, the rule yields no draft tokens. In this case, one draft token is
// tried occasionally, which takes about 1 % of the time.
class Speculator {
 public:
  // Throws invalid_argument for invalid options or an unsuitable draft model.
  Speculator(const SequenceModel& model, const Speculation& options, int64_t step_rows);

  struct Candidate {
    Proposer::Ask ask;  // ask.most is the limit set by memory, context and max_tokens
    Acceptance* acceptance = nullptr;
  };
  // Drafts tokens for the sequences of a step. Without draft tokens, the step has `rows` rows and samples one
  // token of each sequence. Drafts at most rows_left tokens in total.
  void propose(std::span<Candidate> candidates, int64_t rows, int64_t rows_left);
  // Called after each step with its number of rows and its duration.
  void learn(int64_t rows, double seconds) {
    if (options_.measures_steps) step_cost_.learn(rows, seconds);
  }
  void forget(int slot) { proposer_->forget(slot); }
  int64_t max_tokens() const { return options_.max_tokens; }

 private:
  double token_cost() const;  // cost of one draft token in rows
  int64_t worth(Candidate& candidate, double& tokens, double& cost) const;

  Speculation options_;
  StepCost step_cost_;
  std::unique_ptr<Proposer> proposer_;
  std::vector<Proposer::Ask> asks_;
};

}  // namespace gpt
