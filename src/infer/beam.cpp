#include "infer/beam.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "infer/logprobs.h"
#include "infer/selector.h"

namespace gpt {
namespace {

// With a larger exponent, a power of the length could overflow.
constexpr double kLengthPenaltyLimit = 10;

void check_options(const SequenceModel& model, const BeamOptions& o) {
  if (o.width < 1) fail_parameter("beams", "expected a positive number, found {}", o.width);
  if (o.width > model.slots()) {
    fail_parameter("beams", "expected at most {} (the number of concurrent sequences), found {}",
                   model.slots(), o.width);
  }
  if (o.steps < 0) fail_parameter("max_tokens", "expected 0 or a positive number, found {}", o.steps);
  if (!(std::fabs(o.length_penalty) <= kLengthPenaltyLimit)) {
    fail_parameter("length_penalty", "expected a number from {} to {}, found {}", -kLengthPenaltyLimit,
                   kLengthPenaltyLimit, o.length_penalty);
  }
  if (o.prefill_chunk < 1)
    fail_parameter("prefill_chunk", "expected a positive number, found {}", o.prefill_chunk);
  if (o.adapter < -1 || o.adapter >= model.adapters())
    fail_parameter("adapter", "expected -1 or the index of one of the model's {} adapters, found {}",
                   model.adapters(), o.adapter);
  check_policy(model, o.context);
}

class Search {
 public:
  Search(SequenceModel& model, std::span<const int32_t> prompt, const BeamOptions& options)
      : model_(model), prompt_(prompt), options_(options), selector_(model.backend(), model.vocab_size()) {}

  std::vector<Beam> run() && {
    if (options_.steps > 0) {
      open();
      for (int64_t step = 1; extend() && step < options_.steps; ++step)
        feed_living();
    }
    std::vector<Beam> beams;
    for (State& state : states_)
      beams.push_back(std::move(state.beam));
    return beams;
  }

 private:
  struct State {
    Beam beam;
    bool living;
    int slot;    // slot of an unfinished beam; holds the prompt and the generated ids except the last one
    size_t row;  // index of an unfinished beam's row in the logits
  };

  // A candidate for the next set of beams: an unfinished beam extended by one token, or a finished beam with
  // id -1.
  struct Proposal {
    size_t parent;
    int32_t id;
    double log_prob;
    double score;
  };

  double score(double log_prob, size_t length) const {
    if (options_.length_penalty == 0) return log_prob;
    return log_prob / std::pow(static_cast<double>(length), options_.length_penalty);
  }

  void open() {
    model_.reset(0, options_.adapter);
    const SequenceModel::Append append{0, opening_ids(model_, prompt_, options_.context)};
    feed({&append, 1});
    states_.push_back({{}, true, 0, 0});
  }

  // Appends ids to the unfinished beams, and selects the most likely next tokens of each beam.
  void feed(std::span<const SequenceModel::Append> appends) {
    const int64_t shape[] = {std::ssize(appends), model_.vocab_size()};
    const TensorView logits = logits_.grow(DType::f32, shape, "logits", model_.backend().device.get());
    gpt::feed(model_, appends, options_.prefill_chunk, logits);
    selector_.rows.clear();
    for (int64_t row = 0; row < std::ssize(appends); ++row)
      selector_.rows.push_back(
          {.row = row, .k = std::min(options_.width, model_.vocab_size()), .log_sum = true});
    selector_.run(logits);
  }

  std::vector<Proposal> proposals() {
    std::vector<Proposal> result;
    std::vector<TokenLogprob> likeliest;
    for (size_t parent = 0; parent < states_.size(); ++parent) {
      const State& state = states_[parent];
      if (!state.living) {
        result.push_back({parent, -1, state.beam.log_prob, state.beam.score});
        continue;
      }
      const double log_sum = selector_.selection(state.row).log_sum;
      rank(selector_.candidates(state.row), options_.width, log_sum, likeliest);
      for (const auto& [id, logprob] : likeliest) {
        const double log_prob = state.beam.log_prob + logprob;
        result.push_back({parent, id, log_prob, score(log_prob, state.beam.ids.size() + 1)});
      }
    }
    std::sort(result.begin(), result.end(), [](const Proposal& a, const Proposal& b) {
      if (a.score != b.score) return a.score > b.score;
      return a.parent != b.parent ? a.parent < b.parent : a.id < b.id;
    });
    result.resize(std::min(result.size(), static_cast<size_t>(options_.width)));
    return result;
  }

  // Replaces the beams by the best proposals. Returns true if any of the new beams is unfinished.
  bool extend() {
    const std::vector<Proposal> best = proposals();
    std::vector<State> next;
    for (const Proposal& p : best) {
      State state = states_[p.parent];
      if (state.living) grow(state, p);
      next.push_back(std::move(state));
    }
    assign_slots(next, best);
    states_ = std::move(next);
    return std::any_of(states_.begin(), states_.end(), [](const State& s) { return s.living; });
  }

  void grow(State& state, const Proposal& p) const {
    state.beam.ids.push_back(p.id);
    state.beam.log_prob = p.log_prob;
    state.beam.score = p.score;
    const auto& eos = options_.eos_ids;
    if (std::find(eos.begin(), eos.end(), p.id) != eos.end()) {
      state.beam.finish = FinishReason::eos;
      state.living = false;
    } else if (std::ssize(state.beam.ids) < options_.steps &&
               context_full(model_, state.slot, options_.context)) {
      state.beam.finish = FinishReason::context;
      state.living = false;
    }
  }

  // The first unfinished child of a beam keeps the slot of its parent. Other children are copied into slots
  // that no child keeps. Every slot is therefore copied before it is overwritten, and `width` slots suffice.
  void assign_slots(std::vector<State>& next, const std::vector<Proposal>& best) {
    std::vector<char> given(states_.size(), 0);
    std::vector<char> used(static_cast<size_t>(options_.width), 0);
    std::vector<size_t> copies;
    for (size_t i = 0; i < next.size(); ++i) {
      if (!next[i].living) continue;
      if (given[best[i].parent]) {
        copies.push_back(i);
      } else {
        given[best[i].parent] = 1;
        used[static_cast<size_t>(next[i].slot)] = 1;
      }
    }
    for (const size_t i : copies) {
      const auto free = std::find(used.begin(), used.end(), 0);
      GPT_ASSERT(free != used.end());
      *free = 1;
      const int slot = static_cast<int>(free - used.begin());
      model_.copy(next[i].slot, slot);
      next[i].slot = slot;
    }
  }

  void feed_living() {
    std::vector<std::vector<int32_t>> sequences;
    std::vector<int> slots;
    for (State& state : states_) {
      if (!state.living) continue;
      state.row = sequences.size();
      slots.push_back(state.slot);
      sequences.emplace_back(prompt_.begin(), prompt_.end());
      sequences.back().insert(sequences.back().end(), state.beam.ids.begin(), state.beam.ids.end());
    }
    std::vector<SequenceModel::Append> appends;
    for (size_t i = 0; i < slots.size(); ++i) {
      appends.push_back(following_ids(model_, slots[i], sequences[i], options_.context, options_.adapter));
    }
    feed(appends);
  }

  SequenceModel& model_;
  std::span<const int32_t> prompt_;
  const BeamOptions& options_;
  std::vector<State> states_;  // best first
  Buffer logits_;              // [unfinished beams, V]
  Selector selector_;
};

}  // namespace

std::vector<Beam> beam_search(SequenceModel& model, std::span<const int32_t> prompt,
                              const BeamOptions& options) {
  check_options(model, options);
  check_prompt(model, prompt, options.context, "prompt");
  return Search(model, prompt, options).run();
}

}  // namespace gpt
