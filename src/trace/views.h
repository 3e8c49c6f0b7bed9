#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/capture.h"

namespace gpt {

// What is read off a Capture: plain numbers, computed in double.

double frobenius(const TensorView& x);  // root of the sum of squares
double row_norm(const TensorView& x, int64_t r);
double mean_row_norm(const TensorView& x);  // mean over tokens of the Euclidean norm

// What a sub-layer does to the residual stream.
struct Change {
  double added = 0;     // |branch|, Frobenius: what the sub-layer itself gives
  double absolute = 0;  // |after - before|; equal to `added` unless a norm comes behind the sum
  double relative = 0;  // |after - before| / |before|
  double cosine = 0;    // between before and after, all tokens together
  double norm = 0;      // |after|
};
Change change(const TensorView& before, const TensorView& branch, const TensorView& after);
struct BlockChange {
  Change attention, mlp, block;
};
BlockChange block_change(const Capture& capture, int64_t layer);

// One query's way to its attention weights, recomputed in double from the captured queries and keys.
struct AttentionScore {
  double dot = 0;       // q . k
  double scaled = 0;    // q . k / sqrt(D)
  bool masked = false;  // a later key, or one outside the sliding window: -inf
  double weight = 0;    // softmax over the keys that are not masked
};
// A later key, or one outside the sliding window.
bool is_masked(const ModelConfig& config, int64_t query, int64_t key);
std::vector<AttentionScore> score_row(const Capture& capture, int64_t layer, int64_t head, int64_t query);

// How a head spreads its attention, as means over queries. Shares are of attention weight.
struct HeadSummary {
  double entropy = 0;  // bits; 0 = one key, log2(n) = n keys alike
  double self = 0, previous = 0, first = 0;
  double distance = 0;  // tokens back, weighted
};
HeadSummary head_summary(const Capture& capture, int64_t layer, int64_t head);
// "previous token", "first token", "itself", or "spread": what takes more than half of a head's weight.
const char* head_habit(const HeadSummary& summary);

struct Neuron {
  int64_t index;
  double value;  // after the activation
};
struct MlpSummary {
  double active =
      0;  // share of (token, neuron) with a positive argument of the activation (the gate's, if gated)
  double never = 0;  // share of neurons that are active for no token of the prompt
};
MlpSummary mlp_summary(const Capture& capture, int64_t layer);
// The neurons of largest |value| for a token, largest first.
std::vector<Neuron> top_neurons(const Capture& capture, int64_t layer, int64_t token, int64_t n);

// A distribution over next tokens, from a row of logits.
struct Candidate {
  int32_t id;
  double logit, probability;
};
struct Prediction {
  std::vector<Candidate> top;  // likeliest first; equal ones by id
  double log_sum = 0;          // log of the sum of exp(logit)
  double entropy = 0;          // bits
  int32_t next = -1;           // the token that came, or -1 behind the last one
  double next_probability = 0;
  int64_t next_rank = 0;  // 1 = likeliest
};
Prediction predict(const TensorView& logits, int64_t row, int32_t next, int64_t top_k);
// At every position of the prompt.
std::vector<Prediction> predictions(const Capture& capture, int64_t top_k);

// [n_layer + 1][T]: what the model would say if it stopped after the embedding, after block 0, ...
using LogitLens = std::vector<std::vector<Prediction>>;
LogitLens logit_lens(Capture& capture, int64_t top_k);

// One step of a block as readers see it.
struct BlockStep {
  std::string name;  // "norm1.out"; the activation's name is "blocks.N." + this
  TensorView view;
  Shape shape;
  const char* about;  // in a few words
  double rms, low, high;
};

// The steps of a block in their order.
std::vector<BlockStep> block_steps(const Capture& capture, int64_t layer);

}  // namespace gpt
