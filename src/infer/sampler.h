#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "infer/constraint.h"
#include "infer/logprobs.h"
#include "infer/selector.h"

namespace gpt {

// The last token that top-p keeps, in order of falling probability. The two rules differ only if the sum
// before a token equals p exactly.
enum class TopPRule {
  crossing,  // removes a token if the sum before it exceeds p: on equality keeps one more token
  reaching,  // keeps tokens up to the first one whose sum, including itself, reaches p
};
TopPRule parse_top_p_rule(std::string_view name);  // "crossing" or "reaching", else invalid_argument

// How the next token is sampled. The defaults sample from the unchanged distribution of the model.
struct SamplingParams {
  double temperature = 1;  // >= 0; 0 = greedy: the most likely token, ties to the lowest id
  int64_t top_k = 0;       // keep the k most likely and all that tie with the last; 0 = off
  double top_p = 1;        // (0, 1]; 1 = off
  TopPRule top_p_rule = TopPRule::crossing;
  double min_p = 0;               // [0, 1]: minimum probability relative to the most likely token
  double repetition_penalty = 1;  // > 0: for ids of prompt or output; divides a logit > 0, else multiplies
  double presence_penalty = 0;    // subtracted once from each id of the output
  double frequency_penalty = 0;   // subtracted once per occurrence in the output
  std::map<int32_t, double> logit_bias = {};  // added to the logit; -inf forbids an id, +inf forces it

  bool greedy() const { return temperature == 0; }
};

// Throws invalid_argument naming an invalid parameter, its valid range and its value.
void validate(const SamplingParams& params, int64_t vocab_size);

// The ids of a sequence so far; every id is in [0, vocab_size).
struct TokenHistory {
  std::span<const int32_t> prompt;
  std::span<const int32_t> output;
};

// Input and result of sampling the next token of a sequence.
struct Draw {
  const SamplingParams* params = nullptr;  // must be valid (see validate)
  int64_t row = -1;                        // row of the logits; -1: the index of the draw
  TokenHistory history = {};
  RandomStream random = {0, RandomSite::sample};  // not used by greedy sampling
  int64_t logprobs = -1;                          // -1: none; 0: the sampled token; k: also the top k
  Constraint* constraint = nullptr;               // null: none; the sampler calls allow() but not accept()
  int64_t remaining = 0;  // with a constraint: tokens that the output may still have, including this one
  std::span<const int32_t> end_ids = {};  // with a constraint: ids that end the sequence, in [0, vocab_size)

  int32_t id = -1;  // -1: see error
  Logprobs result = {};
  // Set if a logit is NaN or infinite, if biases or constraint forbid every id, or if the constraint failed.
  std::string error = {};
};

// Samples tokens for any number of sequences together.
//
// Order of operations: logit bias; repetition penalty (once for each distinct id of prompt or output);
// presence and frequency penalty; the constraint, whose mask is final; temperature; top-k; top-p over the
// tokens that top-k kept (Holtzman et al. 2020); min-p (Nguyen et al. 2024); softmax; inverse transform
// sampling in order of ids with one uniform double.
//
// The op select_candidates computes everything up to the constraint, and top-k. Without top-k, the scores of
// all ids are read.
class Sampler {
 public:
  Sampler(const Backend& backend, int64_t vocab_size);

  // Samples a token for each draw. logits: [N,V] in memory of the backend.
  void draw(const TensorView& logits, std::span<Draw> draws);

 private:
  struct Weighted {
    double weight;  // exp((score - max) / temperature): 1 for the most likely token
    int32_t id;
  };
  // Samples a token of one row. Allocates all of its memory in the constructor.
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
    double total_ = 0;                // sum of all weights before top-p
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
  std::vector<int32_t> counts_;          // [V] occurrences in the output; -1: not seen; all -1 between calls
  std::vector<int32_t> touched_;         // ids seen
  std::vector<size_t> logprob_rows_;     // indices in selector_.rows
  std::vector<Selector::Token> chosen_;  // sampled tokens whose logits are read
  std::vector<Choice> choices_;          // one for each thread
};

}  // namespace gpt
