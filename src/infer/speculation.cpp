#include "infer/speculation.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "infer/draft.h"
#include "infer/ngram.h"

namespace gpt {
namespace {

// The counts behind the acceptance rate decay by this factor in each step. Older steps count less because
// texts alternate between copied and new content.
constexpr double kMemory = 0.8;

// Fraction of the time that may be spent on trial draft tokens, which are not expected to save time.
constexpr double kTrialShare = 0.01;

void check(const SequenceModel& model, const Speculation& o) {
  if (o.max_tokens < 1 || o.max_tokens > kMostProposals)
    fail_parameter("draft_tokens", "expected 1 to {}, found {}", kMostProposals, o.max_tokens);
  if (!model.can_roll_back() || (o.draft != nullptr && !o.draft->can_roll_back()))
    fail_unsupported(
        "`speculate`: a model with a recurrent state cannot discard rejected draft tokens; set it to off");
  if (o.source != Speculation::Source::draft) return;
  if (o.draft == nullptr) fail_parameter("speculate", "'draft' needs a draft model, found none");
  GPT_ASSERT(o.draft->slots() >= model.slots() && o.draft_cost >= 0);
}

}  // namespace

Speculation::Source parse_speculation(std::string_view name) {
  if (name == "off") return Speculation::Source::off;
  if (name == "ngram") return Speculation::Source::ngram;
  if (name == "draft") return Speculation::Source::draft;
  fail_parameter("speculate", "expected 'ngram', 'draft' or 'off', found '{}'", name);
}

void Acceptance::learn(int64_t proposed, int64_t accepted) {
  const bool missed = accepted < proposed;  // draft tokens after a rejected one carry no information
  hits_ = kMemory * hits_ + static_cast<double>(accepted);
  tries_ = kMemory * tries_ + static_cast<double>(accepted + missed);
}

bool Acceptance::tries_again(double interval) {
  if (++waited_ < interval) return false;
  waited_ = 0;
  return true;
}

Speculator::Speculator(const SequenceModel& model, const Speculation& options, int64_t step_rows)
    : options_(options) {
  check(model, options);
  if (options.source == Speculation::Source::draft) {
    proposer_ = std::make_unique<DraftProposer>(*options.draft, model.vocab_size(), step_rows);
  } else {
    proposer_ = std::make_unique<NgramProposer>(model.slots());
  }
  asks_.reserve(static_cast<size_t>(model.slots()));
}

double Speculator::token_cost() const {
  return options_.source == Speculation::Source::draft ? 1 + options_.draft_cost * step_cost_.weight_rows()
                                                       : 1;
}

// Returns the number of draft tokens that are worth their cost. `tokens` and `cost` describe the step so far;
// the function adds the new draft tokens to them.
int64_t Speculator::worth(Candidate& c, double& tokens, double& cost) const {
  const double rate = c.acceptance->rate(), token_cost = this->token_cost();
  double chance = 1;
  int64_t n = 0;
  for (; n < c.ask.most; ++n) {
    chance *= rate;
    if (chance * cost <= token_cost * tokens) break;
    tokens += chance;
    cost += token_cost;
  }
  if (n == 0 && c.acceptance->tries_again(token_cost / cost * tokens / kTrialShare)) {
    cost += token_cost;
    n = 1;
  }
  return n;
}

void Speculator::propose(std::span<Candidate> candidates, int64_t rows, int64_t rows_left) {
  asks_.clear();
  auto tokens = static_cast<double>(candidates.size());
  double cost = step_cost_.weight_rows() + static_cast<double>(rows);
  for (Candidate& c : candidates) {
    c.ask.most = std::min({c.ask.most, options_.max_tokens, rows_left});
    if (c.ask.most < 1 || !proposer_->has(c.ask)) continue;
    c.ask.most = worth(c, tokens, cost);
    rows_left -= c.ask.most;
    if (c.ask.most > 0) asks_.push_back(c.ask);
  }
  if (!asks_.empty()) proposer_->propose(asks_);
}

}  // namespace gpt
