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

// Speculative decoding: a step computes the logits after tokens that are only likely to come, and those that
// do come then cost no step of their own. Results are the same bits as without.
struct Speculation {
  enum class Source : uint8_t {
    off,
    ngram,  // what followed the last tokens when they last stood in the sequence
    draft   // what a smaller model finds likeliest
  };
  Source source = Source::off;
  int64_t max_tokens = 16;  // proposed for a sequence in a step, 1 to kMostProposals
  // With Source::draft: a model of the same tokens, with as many slots as the engine's model; outlives the
  // engine, which uses all its slots.
  SequenceModel* draft = nullptr;
  double draft_cost = 0;  // of one of its steps, relative to the model's
  // Learn what a step costs from the time it takes; else the first guess of StepCost stays.
  bool measures_steps = true;
};
// "off", "ngram" or "draft"; throws invalid_argument for another name.
Speculation::Source parse_speculation(std::string_view name);

// How often the proposals for a sequence came true of late.
class Acceptance {
 public:
  void learn(int64_t proposed, int64_t accepted);
  // The probability that a proposed token is drawn, where those before it were.
  double rate() const { return hits_ / tries_; }
  // A step in which nothing was proposed since it would not pay. True where one token is proposed all the
  // same, to find out whether that has changed: once in `interval` steps.
  bool tries_again(double interval);

 private:
  // The first guesses are few.
  double hits_ = 0.5, tries_ = 1;
  double waited_ = std::numeric_limits<double>::infinity();  // so the first trial is at once
};

// Decides how many tokens are proposed for each sequence of a step, and has them proposed.
//
// The rule. A step costs as much as some rows, for reading the weights (StepCost), and one for each row that
// it computes; a step of the draft model its share of that. A further token is proposed for a sequence as
// long as its probability is larger than what it adds to the cost, relative to what the tokens of the step
// cost so far. So many are proposed where many came true and few sequences run, and none where the rows of a
// step are worth more than reading the weights less often. Where none would pay one is proposed now and then;
// that takes about a hundredth of the time.
class Speculator {
 public:
  // Throws invalid_argument for invalid options, and for a draft model that cannot serve the model.
  Speculator(const SequenceModel& model, const Speculation& options, int64_t step_rows);

  struct Candidate {
    Proposer::Ask ask;  // most: what memory, context and max_tokens leave room for
    Acceptance* acceptance = nullptr;
  };
  // For sequences which, without proposals, get one token each in a step of `rows` rows. At most rows_left
  // tokens are proposed in all.
  void propose(std::span<Candidate> candidates, int64_t rows, int64_t rows_left);
  // After a step.
  void learn(int64_t rows, double seconds) {
    if (options_.measures_steps) step_cost_.learn(rows, seconds);
  }
  void forget(int slot) { proposer_->forget(slot); }
  int64_t max_tokens() const { return options_.max_tokens; }

 private:
  double token_cost() const;  // of a proposal, in rows
  int64_t worth(Candidate& candidate, double& tokens, double& cost) const;

  Speculation options_;
  StepCost step_cost_;
  std::unique_ptr<Proposer> proposer_;
  std::vector<Proposer::Ask> asks_;
};

}  // namespace gpt
