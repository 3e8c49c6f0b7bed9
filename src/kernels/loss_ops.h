#pragma once

// Arguments of ops (ops.h): the next token, losses, and the heads of tasks.

#include <cstdint>

#include "kernels/op_fields.h"
#include "kernels/step_state.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// ---------------------------------------------------------------------------------------------------
// Sampling the next token. The scores of a row are its logits with the changes of its request. The bias is
// added. For tokens in prompt or output, a score above 0 is divided by repetition_penalty, other scores are
// multiplied by it (Keskar et al. 2019, CTRL). presence_penalty is subtracted once, and frequency_penalty
// once for each occurrence in the output (OpenAI's API). Tokens that are not allowed have the score -inf.
// Computed in double, stored as fp32.
struct ScoreChange {
  int32_t id;
  int32_t count = -1;  // occurrences in the output; -1: in neither prompt nor output
  double bias = 0;     // may be infinite
};
struct SelectRow {
  int64_t row = 0;           // row of logits
  int64_t k = 0;             // number of candidates, at most V; 0: none
  bool log_sum = false;      // whether to compute the log-sum-exp
  int64_t first_change = 0;  // index of the row's first change; each change is for a different token
  int64_t changes = 0;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int64_t allowed_row = -1;  // row of `allowed`; -1: all tokens are allowed
  int64_t scores_row = -1;   // row of `scores` that receives the scores; -1: none, if scores equal logits
};
struct TokenScore {
  int32_t id;
  float score;
};
struct Selection {
  int32_t not_finite = -1;  // first token with a NaN or infinite logit; then nothing else is computed
  int64_t count = 0;        // tokens with at least the k-th highest score: more than k in case of ties
  double log_sum = 0;       // log of the sum of exp(logit), in double, in order of ids
};
// Selects the top k tokens of each row. Stores the first `capacity` of the `count` candidates of rows[i], by
// ascending id.
struct SelectCandidatesArgs {
  TensorView logits;  // [N,V] fp32
  DeviceSpan<const SelectRow> rows;
  DeviceSpan<const ScoreChange> changes = {};  // changes of all rows
  DeviceSpan<const uint64_t> allowed = {};     // [rows, ceil(V/64)]: token i is bit i % 64 of word i / 64
  TensorView scores = {};                      // [rows,V] fp32
  int64_t capacity = 0;
  DeviceSpan<TokenScore> candidates = {};  // [rows, capacity]
  DeviceSpan<Selection> selections;        // [rows]
  GPT_FIELDS(logits, rows, changes, allowed, scores, capacity, candidates, selections)
};

// ---------------------------------------------------------------------------------------------------
// z = cap tanh(x / cap), in place.
struct SoftcapArgs {
  TensorView x;
  double cap;
  GPT_FIELDS(x, cap)
};

// Cross-entropy of softcapped logits: losses[n] = lse(z[n]) - z[n][targets[n]], z = cap tanh(x/cap) /
// temperature or x / temperature. Weights multiply loss and gradient of their row and may be negative. Rows
// with a target < 0 or a weight of 0 do not count: loss 0, gradient 0.
struct CrossEntropyArgs {
  TensorView logits;                     // [N,V] fp32 (or fp64), before the softcap
  DeviceSpan<const int32_t> targets;     // [N], each < V
  DeviceSpan<const float> weights = {};  // [N], or absent: 1
  DeviceSpan<double> losses;             // [N], nats
  // [N,V] act: scale * d loss / d logits; absent: no gradient. May share the memory of logits: row n may
  // start at the first byte of row n of logits, for any dtype.
  TensorView dlogits = {};
  double softcap = 0;                     // 0: none
  double temperature = 1;                 // above 0
  DeviceSpan<const StepState> step = {};  // [1]: scale = loss_scale * loss_weight; absent: 1
  GPT_FIELDS(logits, targets, weights, losses, dlogits, softcap, temperature, step)
};

// ---------------------------------------------------------------------------------------------------
// Task heads. The rows consist of `samples` equal parts. From each part one row is picked: the last row with
// token `id`, or the last row if there is none.
struct PickedRows {
  DeviceSpan<const int32_t> ids;  // [N], a multiple of samples
  int64_t samples;
  int32_t id;
};

// out[i] = the sum of the picked rows of samples i g .. i g + g - 1, where g = samples / rows of out.
struct PickRowsArgs {
  TensorView out;  // [samples/g,C] act
  TensorView x;    // [N,C] act
  PickedRows picked;
  GPT_FIELDS(out, x, picked)
};

// Adds dout[i] to dx of the picked rows. Without accumulate, sets dx to dout[i] in these rows and to 0 in all
// others.
struct PickRowsBackwardArgs {
  TensorView dx;    // [N,C] act
  TensorView dout;  // [samples/g,C] act
  PickedRows picked;
  bool accumulate = true;
  GPT_FIELDS(dx, dout, picked, accumulate)
};

// The loss of logits for labels: cross-entropy if labels are classes, or the squared error of a single logit.
// Row i belongs to samples i g .. i g + g - 1 with g = samples / G. It has the label of the first of these
// samples and the weight of its picked row. Rows whose label is not a class, or whose weight is 0, do not
// count: loss 0, gradient 0.
enum class LabelLoss : uint8_t { cross_entropy, squared_error };
struct LabelLossArgs {
  LabelLoss loss;
  TensorView logits;               // [G,K] fp32 (or fp64)
  DeviceSpan<const float> labels;  // [samples]
  PickedRows picked;
  DeviceSpan<const float> weights = {};  // [N], or absent: 1
  DeviceSpan<double> losses;  // [N]; the picked row of the first sample of row i receives the loss of row i
  bool accumulate = true;     // adds to `losses`; else all other rows become 0
  TensorView dlogits = {};    // [G,K] in the dtype of logits: scale * d loss / d logits; or absent
  DeviceSpan<const StepState> step = {};  // [1]: scale = loss_scale * loss_weight; absent: 1
  GPT_FIELDS(loss, logits, labels, picked, weights, losses, accumulate, dlogits, step)
};

// Direct preference optimization (Rafailov et al. 2023, equation 7). Samples are pairs of n_ctx rows each,
// the chosen one first. With s(y) = sum of -nll over the rows of a sample y, its log-probability relative to
// the reference d(y) = s(y) - reference[y], margin = beta (d(chosen) - d(rejected)) and e = smoothing:
//   losses: -(1 - e) log sigmoid(margin) - e log sigmoid(-margin) in the first row of a pair, 0 in all other
//   rows weights: mask * d loss / d nll of the row, for the cross-entropy that computes the gradient
struct PreferenceArgs {
  DeviceSpan<double> losses;          // [rows]; on entry: nll of each row, 0 if it does not count
  DeviceSpan<const float> reference;  // [rows / n_ctx] log-probabilities
  DeviceSpan<const float> mask;       // [rows]
  DeviceSpan<float> weights;          // [rows]
  int64_t n_ctx;
  double beta, smoothing = 0;
  GPT_FIELDS(losses, reference, mask, weights, n_ctx, beta, smoothing)
};

// Adds the losses, in order, to the loss of `step` if given, else to `sum`.
struct SumLossesArgs {
  DeviceSpan<const double> losses;  // [rows]
  DeviceSpan<double> sum = {};      // [1]
  DeviceSpan<StepState> step = {};  // [1]
  GPT_FIELDS(losses, sum, step)
};

}  // namespace gpt
