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

// Options of speculative decoding. A step also computes the logits after draft tokens; accepted draft tokens
// then need no step of their own. Results are bit-identical to those without speculation.
struct Speculation {
  enum class Source : uint8_t {
    off,
    ngram,  // tokens that followed an earlier occurrence of the last tokens in the sequence
    draft   // the most likely tokens of a smaller model
  };
  Source source = Source::off;
  int64_t max_tokens = 16;  // maximum draft tokens of a sequence in a step, 1 to kMostProposals
  // With Source::draft: a model with the same vocabulary and as many slots as the engine's model. Must
  // outlive the engine, which uses all of its slots.
  SequenceModel* draft = nullptr;
  double draft_cost = 0;  // cost of a step of the draft model, relative to a step of the model
  // Estimate the cost of a step from measured times; else use the initial estimate of StepCost.
  bool measures_steps = true;
};
// "off", "ngram" or "draft"; throws invalid_argument for another name.
Speculation::Source parse_speculation(std::string_view name);

// The recent acceptance rate of the draft tokens of a sequence.
class Acceptance {
 public:
  void learn(int64_t proposed, int64_t accepted);
  // Returns the estimated probability that a draft token is accepted, given that those before it were.
  double rate() const { return hits_ / tries_; }
  // Called for a step in which drafting would not pay. Returns true once in `interval` steps: then one token
  // is drafted to find out whether the acceptance rate has changed.
  bool tries_again(double interval);

 private:
  // Low initial weights, so that measurements soon dominate.
  double hits_ = 0.5, tries_ = 1;
  double waited_ = std::numeric_limits<double>::infinity();  // so that the first trial is immediate
};

// Decides the number of draft tokens for each sequence of a step, and calls the drafter.
//
// Rule. The cost of a step, in rows, is a constant for reading the weights (StepCost) plus the number of
// computed rows; a step of the draft model costs its share of that. A sequence gets another draft token as
// long as the token's acceptance probability exceeds its added cost, relative to the cost per token of the
// step so far. This yields many draft tokens if acceptance is high and few sequences run, and none if
// computing rows costs more than it saves in reading weights. If no draft token pays, one is drafted
// occasionally, which takes about 1 % of the time.
class Speculator {
 public:
  // Throws invalid_argument for invalid options or an unsuitable draft model.
  Speculator(const SequenceModel& model, const Speculation& options, int64_t step_rows);

  struct Candidate {
    Proposer::Ask ask;  // ask.most: the limit by memory, context and max_tokens
    Acceptance* acceptance = nullptr;
  };
  // Drafts tokens for sequences that get one token each in a step of `rows` rows. Drafts at most rows_left
  // tokens in total.
  void propose(std::span<Candidate> candidates, int64_t rows, int64_t rows_left);
  // Called after a step with its rows and duration.
  void learn(int64_t rows, double seconds) {
    if (options_.measures_steps) step_cost_.learn(rows, seconds);
  }
  void forget(int slot) { proposer_->forget(slot); }
  int64_t max_tokens() const { return options_.max_tokens; }

 private:
  double token_cost() const;  // cost of a draft token, in rows
  int64_t worth(Candidate& candidate, double& tokens, double& cost) const;

  Speculation options_;
  StepCost step_cost_;
  std::unique_ptr<Proposer> proposer_;
  std::vector<Proposer::Ask> asks_;
};

}  // namespace gpt
