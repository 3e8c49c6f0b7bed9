#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "gpt/sampling.hpp"
#include "infer/constraint.h"
#include "infer/logprobs.h"
#include "infer/selector.h"

namespace gpt {

using gptcpp::SamplingField;
using gptcpp::SamplingParams;
using gptcpp::TopPRule;

// Parses "crossing" or "reaching". Throws invalid_argument for other names.
TopPRule parse_top_p_rule(std::string_view name);

// Throws invalid_argument that names the first invalid parameter, its valid range and its value.
void validate(const SamplingParams& params, int64_t vocab_size);

// The ids of a sequence so far. Every id is in [0, vocab_size).
struct TokenHistory {
  std::span<const int32_t> prompt;
  std::span<const int32_t> output;
};

// Input and result of sampling the next token of a sequence.
struct Draw {
  const SamplingParams* params = nullptr;  // must be valid (see validate)
  int64_t row = -1;                        // row of the logits; -1: the index of this draw in the span
  TokenHistory history = {};
  RandomStream random = {0, RandomSite::sample};  // not used by greedy sampling
  int64_t logprobs = -1;  // -1: no log-probabilities; 0: of the sampled token; k: also of the top k
  Constraint* constraint = nullptr;  // null: none; the sampler calls allow() but not accept()
  // With a constraint: the number of tokens that may still be generated, including this one.
  int64_t remaining = 0;
  std::span<const int32_t> end_ids = {};  // with a constraint: ids that end the sequence, in [0, vocab_size)

  int32_t id = -1;  // the sampled token; -1 if `error` is set
  Logprobs result = {};
  // The error message if a logit is NaN or infinite, if biases or the constraint forbid every id, or if the
  // constraint failed.
  std::string error = {};
};

// Samples tokens for any number of sequences together.
//
// The operations run in this order:
// - logit bias;
// - repetition penalty, once for each distinct id in prompt or output;
// - presence and frequency penalty;
// - the constraint, whose mask is final;
// - temperature;
// - top-k;
// - top-p over the tokens that top-k kept (Holtzman et al. 2020);
// - min-p (Nguyen et al. 2024);
// - softmax;
// - inverse transform sampling in order of ids with one uniform double.
//
// The op select_candidates computes all operations up to the constraint, and top-k. Without top-k, the
// sampler reads the scores of all ids.
class Sampler {
 public:
  Sampler(const Backend& backend, int64_t vocab_size);

  // Samples one token for each draw. `logits` is [N,V] in memory of the backend.
  void draw(const TensorView& logits, std::span<Draw> draws);

 private:
  struct Weighted {
    double weight;  // exp((score - max) / temperature): 1 for the most likely token
    int32_t id;
  };
  // Samples a token from one row. The constructor allocates all memory.
  class Choice {
   public:
    explicit Choice(size_t vocab_size);
    int32_t among(const SamplingParams& params, std::span<const TokenScore> candidates, RandomStream& random);
    int32_t among_all(const SamplingParams& params, std::span<const float> scores, RandomStream& random);

   private:
    int32_t filter_and_draw(const SamplingParams& params, RandomStream& random);
    void collect_forced(std::span<const float> scores);
    void collect_likely(const SamplingParams& params);
    void keep_top_p(const SamplingParams& params);
    int32_t draw(RandomStream& random) const;
    int32_t draw_from_all(RandomStream& random) const;

    size_t vocab_size_;
    std::vector<float> maxima_;  // maximum of each block of scores
    std::vector<int32_t> ids_;
    std::vector<float> weights_;      // [V]
    std::vector<double> sums_;        // sum of each block of weights_
    double total_ = 0;                // sum of all weights before top-p is applied
    std::vector<Weighted> weighted_;  // by ascending id
    std::vector<Weighted> bucket_;
    std::vector<double> bucket_sums_;
  };

  void ask(Draw& draw, int64_t row);
  void ask_changes(const Draw& draw, SelectRow& row);
  void ask_allowed(Draw& draw, SelectRow& row);
  void draw_one(Draw& draw, size_t row, Choice& choice) noexcept;
  int32_t choose(Draw& draw, size_t row, Choice& choice);
  void add_chosen_logprobs(std::span<Draw> draws);

  ThreadPool& pool_;
  size_t vocab_size_;
  Selector selector_;
  std::vector<int32_t>
      counts_;  // [V] occurrences in the output; -1: not seen; all entries are -1 between calls
  std::vector<int32_t> touched_;         // ids that occur in `counts_`
  std::vector<size_t> logprob_rows_;     // indices in selector_.rows
  std::vector<Selector::Token> chosen_;  // sampled tokens whose logits are read
  std::vector<Choice> choices_;          // one per thread
};

}  // namespace gpt
