#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/capture.h"

namespace gpt {

// Functions that compute statistics of a Capture, in double precision.

double frobenius(const TensorView& x);  // square root of the sum of squares
double row_norm(const TensorView& x, int64_t r);
double mean_row_norm(const TensorView& x);  // mean of the Euclidean norms of all rows (tokens)

// The effect of a sub-layer or layer on the residual stream.
struct Change {
  double added = 0;     // |branch| (Frobenius norm), the output of the sub-layer
  double absolute = 0;  // |after - before|; equals `added` unless a norm follows the sum
  double relative = 0;  // |after - before| / |before|
  double cosine = 0;    // cosine between before and after, over all tokens
  double norm = 0;      // |after|
};
Change change(const TensorView& before, const TensorView& branch, const TensorView& after);
struct BlockChange {
  Change attention, mlp, block;
};
BlockChange block_change(const Capture& capture, int64_t layer);

// The attention weight of one query and one key, with all intermediate values. The values are recomputed in
// double from the captured queries and keys.
struct AttentionScore {
  double dot = 0;       // q . k
  double scaled = 0;    // q . k / sqrt(D)
  bool masked = false;  // true for a later key or a key outside the sliding window; its score is -inf
  double weight = 0;    // softmax over all keys that are not masked
};
// Returns true if the key comes after the query or is outside the sliding window.
bool is_masked(const ModelConfig& config, int64_t query, int64_t key);
std::vector<AttentionScore> score_row(const Capture& capture, int64_t layer, int64_t head, int64_t query);

// Statistics of the attention weights of a head. All values are means over queries. `self`, `previous` and
// `first` are the weights of the query's own token, the previous token and the first token.
struct HeadSummary {
  double entropy = 0;  // in bits: 0 for a single key, log2(n) for n equal weights
  double self = 0, previous = 0, first = 0;
  double distance = 0;  // weighted mean distance of the keys in tokens
};
HeadSummary head_summary(const Capture& capture, int64_t layer, int64_t head);
// Returns "previous token", "first token" or "itself" if this key has more than half of the head's mean
// attention weight, else "spread".
const char* head_habit(const HeadSummary& summary);

struct Neuron {
  int64_t index;
  double value;  // output of the activation function
};
// A neuron is active if the input of its activation function is positive. In a gated MLP, this input is the
// gate.
struct MlpSummary {
  double active = 0;  // fraction of active (token, neuron) pairs
  double never = 0;   // fraction of neurons that are inactive for all tokens of the prompt
};
MlpSummary mlp_summary(const Capture& capture, int64_t layer);
// Returns the n neurons with the largest absolute values for a token, in descending order.
std::vector<Neuron> top_neurons(const Capture& capture, int64_t layer, int64_t token, int64_t n);

// A candidate for the next token.
struct Candidate {
  int32_t id;
  double logit, probability;
};
// The predicted distribution of the next token, computed from one row of logits.
struct Prediction {
  std::vector<Candidate> top;  // most likely first; ties are sorted by id
  double log_sum = 0;          // log of the sum of exp(logit) over the vocabulary
  double entropy = 0;          // in bits
  int32_t next = -1;           // the actual next token, or -1 after the last position
  double next_probability = 0;
  int64_t next_rank = 0;  // rank of the actual next token; 1 is the most likely
};
Prediction predict(const TensorView& logits, int64_t row, int32_t next, int64_t top_k);
// Returns the prediction at every position of the prompt.
std::vector<Prediction> predictions(const Capture& capture, int64_t top_k);

// The predictions if the model stopped after the embedding, after layer 0, after layer 1, and so on, [n_layer
// + 1][T].
using LogitLens = std::vector<std::vector<Prediction>>;
LogitLens logit_lens(Capture& capture, int64_t top_k);

// One step of a layer, with the values to display.
struct BlockStep {
  std::string name;  // for example "norm1.out"; the activation is named "blocks.N." + name
  TensorView view;
  Shape shape;
  const char* about;  // short description
  double rms, low, high;
};

// Returns the steps of a layer in the order of computation.
std::vector<BlockStep> block_steps(const Capture& capture, int64_t layer);

}  // namespace gpt
