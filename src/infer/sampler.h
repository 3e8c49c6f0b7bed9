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

// Which token is the last that top-p keeps, in order of falling probability. The two rules differ only
// where the sum before a token equals p exactly.
enum class TopPRule {
  crossing,  // a token goes when the sum before it exceeds p: on equality one more token stays
  reaching,  // the first token whose sum, itself included, reaches p is the last
};
TopPRule parse_top_p_rule(std::string_view name);  // "crossing" or "reaching", else invalid_argument

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

// Throws invalid_argument naming the option, what it takes and what was found.
void validate(const SamplingParams& params, int64_t vocab_size);

// What a sequence holds so far; every id in [0, vocab_size).
struct TokenHistory {
  std::span<const int32_t> prompt;
  std::span<const int32_t> output;
};

// The next token of a sequence: what it is drawn by, and what came out.
struct Draw {
  const SamplingParams* params = nullptr;  // valid ones (see validate)
  int64_t row = -1;                        // of the logits; -1: as many as draws before this one
  TokenHistory history = {};
  RandomStream random = {0, RandomSite::sample};  // greedy draws nothing from it
  int64_t logprobs = -1;             // -1: none; 0: of the chosen token; k: and of the k likeliest
  Constraint* constraint = nullptr;  // null: none; it is asked, and the draw not told to it
  int64_t remaining = 0;  // with a constraint: tokens that the output may still have, this one included
  std::span<const int32_t> end_ids = {};  // with a constraint: ids that end the sequence, in [0, vocab_size)

  int32_t id = -1;  // -1: see error
  Logprobs result = {};
  // A logit is NaN or infinite, biases or constraint forbid every id, or the constraint has failed.
  std::string error = {};
};

// Draws tokens for any number of sequences at once.
//
// Order: logit bias, repetition penalty (each distinct id of prompt or output, once), presence and frequency
// penalty, the constraint, which has the last word on what is forbidden, temperature, top-k, top-p over what
// top-k left (Holtzman et al. 2020), min-p (Nguyen et al. 2024), softmax, inverse of the cumulative
// distribution in order of ids with one uniform double.
//
// All up to the constraint, and top-k, are the op select_candidates; without top-k the scores of all ids are
// read.
class Sampler {
 public:
  Sampler(const Backend& backend, int64_t vocab_size);

  // logits: [N,V], in memory of the backend; each draw has its row.
  void draw(const TensorView& logits, std::span<Draw> draws);

 private:
  struct Weighted {
    double weight;  // exp((score - max) / temperature), so the likeliest has 1
    int32_t id;
  };
  // Chooses among the tokens of one row. Reserves all memory that it will ever need.
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
    std::vector<float> maxima_;  // of the blocks of the scores
    std::vector<int32_t> ids_;
    std::vector<float> weights_;      // [V]
    std::vector<double> sums_;        // of the blocks of weights_
    double total_ = 0;                // of all weights, those that only top-p removes included
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
  std::vector<int32_t> counts_;          // [V] occurrences in the output, -1: not seen; all -1 between calls
  std::vector<int32_t> touched_;         // the ids seen
  std::vector<size_t> logprob_rows_;     // of selector_.rows
  std::vector<Selector::Token> chosen_;  // tokens whose logits are read
  std::vector<Choice> choices_;          // one a thread
};

}  // namespace gpt
