#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace gpt {

// Which token is the last that top-p keeps, in order of falling probability. The two rules differ only
// where the sum before a token equals p exactly.
enum class TopPRule {
  crossing,  // a token goes when the sum before it exceeds p: on equality one more token stays
  reaching,  // the first token whose sum, itself included, reaches p is the last
};
TopPRule parse_top_p_rule(std::string_view name);  // "crossing" or "reaching", else UsageError

// How the next token is drawn. The defaults leave the model's distribution as it is.
struct SamplingParams {
  double temperature = 1;  // >= 0; 0 = greedy: the most likely token, ties to the lowest id
  int64_t top_k = 0;       // keep the k most likely and all that tie with the last; 0 = off
  double top_p = 1;        // (0, 1]; 1 = off
  TopPRule top_p_rule = TopPRule::crossing;
  double min_p = 0;               // [0, 1]: keep tokens at least this likely relative to the likeliest
  double repetition_penalty = 1;  // > 0: ids of prompt or output, logit > 0 divided, else multiplied
  double presence_penalty = 0;    // subtracted once from each id of the output
  double frequency_penalty = 0;   // subtracted once per occurrence in the output
  std::map<int32_t, double> logit_bias = {};  // added to the logit; -inf forbids an id, +inf forces it

  bool greedy() const { return temperature == 0; }
};

// Throws UsageError naming the flag, what it takes and what was found.
void validate(const SamplingParams& params, int64_t vocab_size);

// What a sequence holds so far; every id in [0, vocab_size).
struct TokenHistory {
  std::span<const int32_t> prompt;
  std::span<const int32_t> output;
};

// Draws tokens. Holds scratch memory only, so one serves any number of sequences, one at a time.
//
// Order: logit bias, repetition penalty (each distinct id of prompt or output, once; Keskar et al. 2019,
// CTRL), presence and frequency penalty (as in OpenAI's API), temperature, top-k, top-p over what top-k
// left (Holtzman et al. 2020), min-p (Nguyen et al. 2024), softmax, inverse of the cumulative
// distribution in order of ids with one uniform double.
class Sampler {
 public:
  // Reserves all memory that it will ever need.
  explicit Sampler(int64_t vocab_size);

  // The next token's id from raw logits [V], by valid parameters (see validate). Throws Error when a
  // logit is NaN or infinite or when the biases forbid every id. Greedy draws nothing from `random`.
  int32_t sample(const SamplingParams& params, std::span<const float> logits, TokenHistory history,
                 RandomStream& random);

 private:
  struct Candidate {
    double weight;  // exp((logit - max) / temperature), so the likeliest has 1
    int32_t id;
  };

  std::span<const float> adjusted(const SamplingParams& params, std::span<const float> logits,
                                  TokenHistory history);
  void count_history(TokenHistory history);
  void collect_top_k(const SamplingParams& params, std::span<const float> scores, float max);
  void collect_forced(std::span<const float> scores);
  void collect_likely(const SamplingParams& params);
  void keep_top_p(const SamplingParams& params);
  int32_t draw(RandomStream& random) const;
  int32_t draw_from_all(RandomStream& random);

  size_t vocab_size_;
  std::vector<float> adjusted_;   // [V]
  std::vector<int32_t> counts_;   // [V] occurrences in the output; all zero between calls
  std::vector<char> seen_;        // [V] occurs in prompt or output; all zero between calls
  std::vector<int32_t> touched_;  // the ids set in seen_
  std::vector<float> maxima_;     // of the blocks of the scores
  std::vector<float> heap_;
  std::vector<int32_t> ids_;
  std::vector<float> weights_;         // [V]
  std::vector<double> sums_;           // of the blocks of weights_
  double total_ = 0;                   // of all weights, those that only top-p removes included
  std::vector<Candidate> candidates_;  // by ascending id
  std::vector<Candidate> bucket_;
  std::vector<double> bucket_sums_;
};

}  // namespace gpt
