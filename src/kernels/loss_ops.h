#pragma once

// Argument structs of the ops (ops.h) for sampling the next token, for losses, and for task heads.

#include <cstdint>

#include "kernels/op_fields.h"
#include "kernels/step_state.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// ---------------------------------------------------------------------------------------------------
// Sampling of the next token. The score of a token is its logit after the bias, the penalties and the
// restrictions of the request are applied, in this order. First, the bias is added. If the token occurs in
// the prompt or in the output, a positive score is divided by repetition_penalty and any other score is
// multiplied by it (Keskar et al. 2019, CTRL). If the token occurs in the output, presence_penalty is
// subtracted once and frequency_penalty once for each occurrence (OpenAI's API). Finally, tokens that are not
// allowed get the score -inf. Scores are computed in double and stored as fp32.
struct ScoreChange {
  int32_t id;
  int32_t count = -1;  // number of occurrences in the output; -1: in neither prompt nor output
  double bias = 0;     // may be infinite
};
struct SelectRow {
  int64_t row = 0;           // row of `logits`
  int64_t k = 0;             // number of candidates to select, at most V; 0: none
  bool log_sum = false;      // true: compute the log-sum-exp of the logits
  int64_t first_change = 0;  // index of this row's first entry of `changes`; no token has two entries
  int64_t changes = 0;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int64_t allowed_row = -1;  // row of `allowed`; -1: all tokens are allowed
  int64_t scores_row = -1;   // row of `scores` that receives the scores; -1: scores equal logits
};
struct TokenScore {
  int32_t id;
  float score;
};
struct Selection {
  int32_t not_finite = -1;  // first token with a NaN or infinite logit; if set, nothing else is computed
  int64_t count = 0;        // number of tokens with at least the k-th highest score; above k if there are
                            // ties
  double log_sum = 0;       // log of the sum of exp(logit), added in double in the order of token ids
};
// Selects the top-k tokens of each row. selections[i].count receives the number of selected tokens of
// rows[i]. `candidates` receives the first `capacity` of these tokens, by ascending token id.
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
// Computes x = cap tanh(x / cap), in place.
struct SoftcapArgs {
  TensorView x;
  double cap;
  GPT_FIELDS(x, cap)
};

// Cross-entropy of softcapped logits: losses[n] = lse(z[n]) - z[n][targets[n]], where z = cap tanh(x/cap) /
// temperature, or x / temperature without a softcap. The loss and the gradient of row n are multiplied by
// weights[n], which may be negative. Rows with a target < 0 or a weight of 0 are ignored: their loss and
// gradient are 0.
struct CrossEntropyArgs {
  TensorView logits;                     // [N,V] fp32 (or fp64), before the softcap
  DeviceSpan<const int32_t> targets;     // [N], each < V
  DeviceSpan<const float> weights = {};  // [N]; 1 if absent
  DeviceSpan<double> losses;             // [N], in nats
  // [N,V] act: scale * d loss / d logits; if absent, no gradient is computed. dlogits may share the memory of
  // logits: row n of dlogits may start at the first byte of row n of logits, for any dtype.
  TensorView dlogits = {};
  double softcap = 0;                     // 0: no softcap
  double temperature = 1;                 // above 0
  DeviceSpan<const StepState> step = {};  // [1]: scale = loss_scale * loss_weight; absent: 1
  GPT_FIELDS(logits, targets, weights, losses, dlogits, softcap, temperature, step)
};

// ---------------------------------------------------------------------------------------------------
// Task heads. The N rows consist of `samples` equal parts, one for each sample. One row is picked from each
// part: the last row with token `id`, or the last row of the part if no row has that token.
struct PickedRows {
  DeviceSpan<const int32_t> ids;  // [N]; N is a multiple of samples
  int64_t samples;
  int32_t id;
};

// Computes out[i], the sum of the picked rows of samples i g .. i g + g - 1, where g is samples divided by
// the number of rows of out.
struct PickRowsArgs {
  TensorView out;  // [samples/g,C] act
  TensorView x;    // [N,C] act
  PickedRows picked;
  GPT_FIELDS(out, x, picked)
};

// Adds dout[i] to the picked rows of dx. Without `accumulate`, sets the picked rows to dout[i] and all other
// rows to 0.
struct PickRowsBackwardArgs {
  TensorView dx;    // [N,C] act
  TensorView dout;  // [samples/g,C] act
  PickedRows picked;
  bool accumulate = true;
  GPT_FIELDS(dx, dout, picked, accumulate)
};

// Loss of a task head: the cross-entropy if labels are class indices, or the squared error of a single logit.
// Row i of the logits belongs to samples i g .. i g + g - 1, where g = samples / G. The label of row i is the
// label of the first of these samples. The weight of row i is the weight of that sample's picked row. Rows
// are ignored (loss 0, gradient 0) if their label is not a class index or their weight is 0.
enum class LabelLoss : uint8_t { cross_entropy, squared_error };
struct LabelLossArgs {
  LabelLoss loss;
  TensorView logits;               // [G,K] fp32 (or fp64)
  DeviceSpan<const float> labels;  // [samples]
  PickedRows picked;
  DeviceSpan<const float> weights = {};  // [N]; 1 if absent
  DeviceSpan<double> losses;  // [N]; the loss of row i is stored at the picked row of its first sample
  bool accumulate = true;     // true: add to `losses`; false: set all other elements of `losses` to 0
  TensorView dlogits = {};    // [G,K] in the dtype of logits: scale * d loss / d logits; or absent
  DeviceSpan<const StepState> step = {};  // [1]: scale = loss_scale * loss_weight; absent: 1
  GPT_FIELDS(loss, logits, labels, picked, weights, losses, accumulate, dlogits, step)
};

// Direct preference optimization (Rafailov et al. 2023, equation 7). Each pair consists of two samples of
// n_ctx rows, the chosen one first. Definitions, for a sample y:
//   s(y) = sum of -nll over the rows of y
//   d(y) = s(y) - reference[y], the log-probability of y relative to the reference model
//   margin = beta (d(chosen) - d(rejected)), e = smoothing
// The op computes:
//   losses: -(1 - e) log sigmoid(margin) - e log sigmoid(-margin) in the first row of a pair, 0 in other rows
//   weights: mask * d loss / d nll of the row; cross_entropy then uses them to compute the gradient
struct PreferenceArgs {
  DeviceSpan<double> losses;          // [rows]; on entry the nll of each row, 0 for ignored rows
  DeviceSpan<const float> reference;  // [rows / n_ctx]: log-probabilities under the reference model
  DeviceSpan<const float> mask;       // [rows]
  DeviceSpan<float> weights;          // [rows]
  int64_t n_ctx;
  double beta, smoothing = 0;
  GPT_FIELDS(losses, reference, mask, weights, n_ctx, beta, smoothing)
};

// Adds the losses in order: to the loss of `step` if `step` is given, otherwise to `sum`.
struct SumLossesArgs {
  DeviceSpan<const double> losses;  // [rows]
  DeviceSpan<double> sum = {};      // [1]
  DeviceSpan<StepState> step = {};  // [1]
  GPT_FIELDS(losses, sum, step)
};

}  // namespace gpt
