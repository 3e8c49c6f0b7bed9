#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "kernels/packed_matrix.h"
#include "tensor/tensor.h"

namespace gpt {

struct ExecContext;

// The op list. Every op is one argument struct here and one entry of the KernelTable; the scalar
// reference in cpu/ref defines what it computes, for float and double.
//
// Conventions. N rows are tokens of all sequences, one after another; C channels; H query heads and Hkv
// key/value heads of width D. A TensorView without data is "absent". Ops never allocate; those that need
// scratch say how much in their KernelTable. Every output element is computed by one task in a fixed order,
// so results do not depend on the thread count.
//
// Element types. Either every floating view of a call is fp64 (reference only), or parameters, their
// gradients, statistics and moments are fp32 and activations - the views marked "act" and their gradients -
// are fp32, bf16 or fp16, each as its view says. Arithmetic is in fp32 or better; what is stored is rounded
// to nearest, ties to even.

// ---------------------------------------------------------------------------------------------------
// Embedding: out[n] = wte[ids[n]] (+ wpe[positions[n]])
struct EmbeddingArgs {
  TensorView out;            // [N,C] act
  const int32_t* ids;        // [N], each in [0,V)
  const int32_t* positions;  // [N], each in [0,n_ctx); read only with wpe
  TensorView wte;            // [V,C]; may be fp32, bf16, fp16 or rows of blocks, as a file has them
  TensorView wpe = {};       // [n_ctx,C] fp32, bf16 or fp16, or absent
};

// dwte[ids[n]] += dout[n], dwpe[positions[n]] += dout[n], rows in order; what was there before is replaced,
// unless it is accumulated to.
struct EmbeddingBackwardArgs {
  TensorView dout;  // [N,C] act
  const int32_t* ids;
  const int32_t* positions;
  TensorView dwte = {};  // [V,C] or absent (frozen)
  TensorView dwpe = {};
  bool accumulate_wte = true;
  bool accumulate_wpe = true;
};

// ---------------------------------------------------------------------------------------------------
// LayerNorm (Ba et al. 2016): out = (x - mean) / sqrt(var + eps) * gain + bias, var over n (not n-1).
// RMSNorm (Zhang & Sennrich 2019): out = x / sqrt(mean(x^2) + eps) * gain.
enum class NormKind : uint8_t { layer, rms };

// With `add`, first sum = x + add (the residual connection), then out = norm(sum).
struct NormArgs {
  NormKind kind;
  double eps;
  TensorView out;        // [N,C] act
  TensorView x;          // [N,C] act
  TensorView gain = {};  // [C] or absent (1)
  TensorView bias = {};  // [C] or absent (0)
  TensorView add = {};   // [N,C] act, or absent
  TensorView sum = {};   // [N,C] of the type of x, with `add`; may be x
  TensorView mean = {};  // [N]; saved for backward (layer only) or absent
  TensorView rstd = {};  // [N]; saved for backward or absent
};

// dx = d(norm) (+ dresidual); dgain, dbias = their sums over the rows (+= with accumulate). dx may be
// dout (of the same type) or dresidual.
struct NormBackwardArgs {
  NormKind kind;
  TensorView dx;    // [N,C] act
  TensorView dout;  // [N,C] act
  TensorView x;     // [N,C] act, the input of the norm (`sum` where there was an `add`)
  TensorView gain = {};
  TensorView mean = {};
  TensorView rstd;
  TensorView dresidual = {};  // [N,C] of the type of dx: gradient that reaches x by another way; or absent
  TensorView dgain = {};      // [C] or absent
  TensorView dbias = {};      // [C] or absent
  bool accumulate = true;
};

// ---------------------------------------------------------------------------------------------------
// Activations. swiglu: out = silu(gate) * x (Shazeer 2020); gelu is x Phi(x), gelu_tanh its tanh
// approximation (Hendrycks & Gimpel 2016); relu2 = max(0,x)^2. All views of a call have one type.
enum class Act : uint8_t { gelu_tanh, gelu, relu, relu2, swiglu };

struct ActArgs {
  Act act;
  TensorView out;        // [N,F] act
  TensorView x;          // [N,F] act
  TensorView gate = {};  // [N,F] act, swiglu only
};

// dx may be dout.
struct ActBackwardArgs {
  Act act;
  TensorView dx;          // [N,F] act
  TensorView dgate = {};  // [N,F] act, swiglu only
  TensorView dout;        // [N,F] act
  TensorView x;
  TensorView gate = {};
};

// ---------------------------------------------------------------------------------------------------
// Linear: y = x w^T + bias. Weights are [out,in] as in PyTorch: either `w`, of any floating type and perhaps
// stored transposed, or rows of a block format (kernels/quant.h); or `packed`, in whose type the product is
// then computed (see PackedMatrix).
struct LinearArgs {
  TensorView y;          // [N,out] act; ld may exceed out
  TensorView x;          // [N,in] act
  TensorView w = {};     // [out,in]
  TensorView bias = {};  // [out] or absent
  // The bits of a row of y depend on that row of x alone, never on N: what inference promises.
  bool row_invariant = false;
  const PackedMatrix* packed = nullptr;  // of x w^T; instead of w
  // The type that a product with `w` is computed in, as if packed in it: that of w, or fp32 for 16-bit w.
  std::optional<DType> compute = {};
  // With `act` (not swiglu): y = act(x w^T + bias), and `pre` gets the argument of act.
  std::optional<Act> act = {};
  TensorView pre = {};  // [N,out] act, or absent
};

// dx = dy w (+ dx with accumulate).
struct LinearBackwardInputArgs {
  TensorView dx;      // [N,in] act
  TensorView dy;      // [N,out] act
  TensorView w = {};  // [out,in]; rows of blocks count as the fp32 numbers that they stand for
  bool accumulate = false;
  const PackedMatrix* packed = nullptr;  // of dy w; instead of w
  // With `act` (not swiglu, not with accumulate): dx = (dy w) * act'(pre).
  std::optional<Act> act = {};
  TensorView pre = {};  // [N,in] act
};

// dw += dy^T x, dbias += column sums of dy (= instead of += without accumulate). The operands of the
// product are rounded to `compute` (fp32, bf16, fp16; fp64 when all is fp64).
struct LinearBackwardWeightArgs {
  TensorView dw;          // [out,in]
  TensorView dbias = {};  // [out] or absent
  TensorView dy;          // [N,out] act
  TensorView x;           // [N,in] act
  bool accumulate = true;
  DType compute = DType::f32;
};

// Fills a packed matrix from its rows: the parts, one below the other.
struct PackMatrixArgs {
  PackedMatrix* dst;  // its memory has the table's packed_bytes(); rows, types and sizes are set
  // [out_i,in] fp32, bf16, fp16 or rows of blocks, for blocks of the type wanted; rows may be `ld` apart
  std::span<const TensorView> parts;
};

// ---------------------------------------------------------------------------------------------------
// RoPE (Su et al. 2021, 3.4.2), in place: pair (a,b) becomes (a c - sign b s, b c + sign a s). Pairs are
// (i, i + D/2), or (2i, 2i+1) when interleaved. The backward pass is the same op with -sign.
struct RopeArgs {
  TensorView x;  // [N,n_head*D] act; ld may exceed that
  int64_t n_head;
  int64_t head_dim;          // even
  const int32_t* positions;  // [N], each in [0, rows of cos)
  TensorView cos, sin;       // [P,D/2]
  int sign = 1;
  bool interleaved = false;
};

// RMSNorm of every head without gain, in place (nanochat's QK norm).
struct QkNormArgs {
  double eps;
  TensorView x;  // [N,n_head*D] act, becomes the normalised values
  int64_t n_head;
  int64_t head_dim;
  TensorView rstd = {};  // [N,n_head] or absent
};

// In place on dy: dx = rstd (dy - y mean(dy y)).
struct QkNormBackwardArgs {
  TensorView dx;    // [N,n_head*D] act: dy on entry, dx on return
  TensorView y;     // [N,n_head*D] act: the normalised values
  TensorView rstd;  // [N,n_head]
  int64_t n_head;
  int64_t head_dim;
};

// ---------------------------------------------------------------------------------------------------
// Counter-based dropout (Srivastava et al. 2014): element e of the site is dropped when the e-th word of
// Philox(key) is below p 2^32, kept ones are scaled by 1/(1-p). e = (first_row + row) * cols + col with
// rows counted over the whole step, so that masks survive recomputation and micro-batching.
struct DropoutKey {
  double p = 0;           // 0: off
  uint64_t key = 0;       // of (seed, step, site, layer): dropout_key()
  int64_t first_row = 0;  // rows of the step before the first one here
};

struct DropoutArgs {  // forward on values, backward on gradients: the same op
  TensorView out;     // [N,C] act; may be x when that is of its type
  TensorView x;       // [N,C] act
  DropoutKey dropout;
};

// ---------------------------------------------------------------------------------------------------
// Causal softmax attention. Query head h uses key/value head h / (H/Hkv). Query i of a sequence sits at
// position kv_len - q_len + i and sees keys at positions <= its own (and > its own - window).
struct AttentionSeq {
  int64_t q_start;  // first row of q and out
  int64_t q_len;
  int64_t kv_len;  // keys in all, those of this call included; >= q_len
  // Key t is row blocks[t / block_size] * block_size + t % block_size of k and v,
  // or row kv_start + t when blocks is null.
  int64_t kv_start = 0;
  const int32_t* blocks = nullptr;
};

struct AttentionShape {
  int64_t n_head;
  int64_t n_kv_head;
  int64_t head_dim;
  double scale;  // 1/sqrt(D); more than 0
  int64_t block_size = 0;
  int64_t window = 0;       // 0: all earlier keys
  DropoutKey dropout = {};  // of the weights; element ((first_row + row)*H + h)*dropout_stride + key
  int64_t dropout_stride = 0;
};

struct AttentionArgs {
  AttentionShape shape;
  std::span<const AttentionSeq> seqs;
  TensorView out;                         // [N,H*D] act
  TensorView q;                           // [N,H*D] act
  TensorView k, v;                        // [rows,Hkv*D] act, of one type; int8 with scales; q4_0, D % 32 = 0
  TensorView k_scale = {}, v_scale = {};  // [rows,Hkv] fp32: what int8 values are multiplied with
  TensorView lse = {};  // [N,H]: log of the softmax denominator, saved for backward, or absent
  // Attention weights after dropout, for looking at: [seqs,H,max q_len,max kv_len], zero where masked.
  TensorView weights = {};
};

// Writes dq, dk, dv (training: sequences with q_len = kv_len, every k/v row in exactly one of them).
struct AttentionBackwardArgs {
  AttentionShape shape;
  std::span<const AttentionSeq> seqs;
  TensorView dq;         // [N,H*D] act; all activations of the call have one type
  TensorView dk, dv;     // [rows,Hkv*D]
  TensorView dout, out;  // [N,H*D]
  TensorView q, k, v;
  TensorView lse;  // [N,H]
};

// Copies row n of src to row rows[n] of dst (the KV cache), converting. To int8, every group of C / G
// elements gets the scale max|x| / 127 and the values round(x / scale). Rows of q4_0 are whole blocks.
struct ScatterRowsArgs {
  TensorView dst;         // [R,C] act, int8 or q4_0
  TensorView src;         // [N,C] act
  const int64_t* rows;    // [N], each in [0,R)
  TensorView scale = {};  // [R,G] fp32, with int8
};

// Moves row rows[i] of x to row i, in place; rows ascend.
struct CompactRowsArgs {
  TensorView x;         // [N,C] act
  const int64_t* rows;  // [count], each in [0,N)
  int64_t count;
};

// ---------------------------------------------------------------------------------------------------
// The numbers of a training step. They lie where ops reach them: the host sets the first ones before the
// step, ops write the others and read both, so that the host need not wait for any of them.
struct StepState {
  int64_t step = 0;  // counts from 0; selects dropout masks, with the seed
  uint64_t seed = 0;
  double lr = 0;
  double loss_scale = 1;   // what the loss is multiplied with before the backward pass
  double loss_weight = 0;  // 1 / (targets that count in the whole step)
  double clip_norm = 0;    // 0: off
  double max_loss = std::numeric_limits<double>::infinity();  // a step beyond is skipped
  double max_norm = std::numeric_limits<double>::infinity();
  int64_t updates = 0;  // that were made; one more after finalize_grad_norm, unless the step is skipped

  double loss = 0;  // the sum over targets; after finalize_grad_norm their mean
  double norm = 0;  // of the gradients, without loss_scale, before clipping
  double grad_scale =
      0;  // what the update multiplies gradients with: clip factor / loss_scale; 0: it is skipped
};

// ---------------------------------------------------------------------------------------------------
// The next token. A row's scores are its logits after what the row asks for: the bias is added; a score of
// a token in prompt or output is divided by repetition_penalty when it is above 0, else multiplied with it
// (Keskar et al. 2019, CTRL); presence_penalty is subtracted once and frequency_penalty as often as the token
// is in the output (OpenAI's API); a token that is not allowed has -inf. In double, stored as fp32.
struct ScoreChange {
  int32_t id;
  int32_t count = -1;  // how often it is in the output; -1: it is in neither prompt nor output
  double bias = 0;     // may be infinite
};
struct SelectRow {
  int64_t row = 0;           // of logits
  int64_t k = 0;             // candidates wanted, at most V; 0: none
  bool log_sum = false;      // whether the log-sum-exp is wanted
  int64_t first_change = 0;  // its changes, each of another token
  int64_t changes = 0;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int64_t allowed_row = -1;  // of allowed; -1: all are
  int64_t scores_row = -1;   // where its scores go; -1: nowhere, and they are the logits
};
struct TokenScore {
  int32_t id;
  float score;
};
struct Selection {
  int32_t not_finite = -1;  // the first token whose logit is NaN or infinite: then there is nothing else
  int64_t count = 0;        // tokens with at least the k-th highest score: more than k where some tie with it
  double log_sum = 0;       // log of the sum of exp(logit), in double, in order of ids
};
// The candidates of rows[i] are the first `capacity` of its `count`, by ascending id.
struct SelectCandidatesArgs {
  TensorView logits;  // [N,V] fp32
  std::span<const SelectRow> rows;
  const ScoreChange* changes = nullptr;  // of all rows
  const uint64_t* allowed = nullptr;     // [rows, ceil(V/64)]: token i is bit i % 64 of word i / 64
  TensorView scores = {};                // [rows,V] fp32
  int64_t capacity = 0;
  TokenScore* candidates = nullptr;  // [rows, capacity]
  Selection* selections;             // [rows]
};

// ---------------------------------------------------------------------------------------------------
// z = cap tanh(x / cap), in place.
struct SoftcapArgs {
  TensorView x;
  double cap;
};

// Cross-entropy of softcapped logits: losses[n] = lse(z[n]) - z[n][targets[n]], z = cap tanh(x/cap) /
// temperature or x / temperature. With weights, of either sign, both are multiplied by the row's. Rows with a
// target < 0 or a weight of 0 do not count: loss 0, gradient 0.
struct CrossEntropyArgs {
  TensorView logits;               // [N,V] fp32 (or fp64), before the softcap
  const int32_t* targets;          // [N], each < V
  const float* weights = nullptr;  // [N], or null: 1
  double* losses;                  // [N], nats
  // [N,V] act: scale * d loss / d logits; absent: no gradient. Its row n may begin where row n of logits
  // begins, whatever its type.
  TensorView dlogits = {};
  double softcap = 0;               // 0: none
  double temperature = 1;           // above 0
  const StepState* step = nullptr;  // scale = loss_scale * loss_weight; none: 1
};
inline double row_weight(const CrossEntropyArgs& a, int64_t n) {
  if (a.targets[n] < 0) return 0;
  return a.weights != nullptr ? double{a.weights[n]} : 1;
}

// ---------------------------------------------------------------------------------------------------
// Heads of tasks. Of each of `samples` equal parts of the rows one row is picked: the last one with this
// token, or the last of all where there is none.
struct PickedRows {
  const int32_t* ids;  // [N]
  int64_t rows;        // N, a multiple of samples
  int64_t samples;
  int32_t id;
};
inline int64_t picked_row(const PickedRows& p, int64_t sample) {
  const int64_t n = p.rows / p.samples, last = (sample + 1) * n - 1;
  for (int64_t row = last; row > last - n; --row) {
    if (p.ids[row] == p.id) return row;
  }
  return last;
}

// out[i] = the sum of the picked rows of samples i g .. i g + g - 1, where g = samples / rows of out.
struct PickRowsArgs {
  TensorView out;  // [samples/g,C] act
  TensorView x;    // [N,C] act
  PickedRows picked;
};

// dx of these rows += dout[i]; without accumulate = dout[i], and 0 for all other rows.
struct PickRowsBackwardArgs {
  TensorView dx;    // [N,C] act
  TensorView dout;  // [samples/g,C] act
  PickedRows picked;
  bool accumulate = true;
};

// The loss of logits whose labels are known: cross-entropy, where a label is a class, or the squared error
// of the only logit. Row i belongs to samples i g .. i g + g - 1, g = samples / G, and has the label of the
// first of them, and the weight that stands at its picked row. Rows whose label is no class, or whose weight
// is 0, do not count: loss 0, gradient 0.
enum class LabelLoss : uint8_t { cross_entropy, squared_error };
struct LabelLossArgs {
  LabelLoss loss;
  TensorView logits;    // [G,K] fp32 (or fp64)
  const float* labels;  // [samples]
  PickedRows picked;
  const float* weights = nullptr;   // [N], or null: 1
  double* losses;                   // [N]; the loss of row i goes to the picked row of its first sample
  bool accumulate = true;           // it is added to what is there; else all others are 0
  TensorView dlogits = {};          // [G,K] of the type of logits: scale * d loss / d logits; or absent
  const StepState* step = nullptr;  // scale = loss_scale * loss_weight; none: 1
};

// Direct preference optimisation (Rafailov et al. 2023, equation 7). Samples come in pairs, the chosen one
// first, n_ctx rows each. With s(y) = sum over its rows of -nll, the log-probability of a sample y beyond its
// reference d(y) = s(y) - reference[y], and margin = beta (d(chosen) - d(rejected)):
//   losses: of a pair's first row -(1 - e) log sigmoid(margin) - e log sigmoid(-margin), e its smoothing; of
//   all
//           others 0
//   weights [rows]: mask * d loss / d nll of the row, for the cross-entropy that gives the gradient
struct PreferenceArgs {
  double* losses;          // [rows]; before: nll of each row, 0 where it does not count
  const float* reference;  // [rows / n_ctx] log-probabilities
  const float* mask;       // [rows]
  float* weights;          // [rows]
  int64_t rows, n_ctx;
  double beta, smoothing = 0;
};

// *sum += the losses, added up in order.
struct SumLossesArgs {
  const double* losses;  // [rows]
  int64_t rows;
  double* sum;
};

// out = a + b. out may be either, when their types are equal.
struct AddArgs {
  TensorView out, a, b;  // act
};

// x = factor x, in place.
struct ScaleArgs {
  TensorView x;  // [N,C] act
  double factor;
};

// block_sums[i] = sum of x^2 over elements [i*kSumBlock, (i+1)*kSumBlock), in double, in order.
inline constexpr int64_t kSumBlock = 16384;
struct SumSquaresArgs {
  TensorView x;        // any shape, dense
  double* block_sums;  // [ceil(size / kSumBlock)]
};

// The norm of gradients from their sums of squares, and what follows for the update: it is skipped if the
// mean loss or the norm are not finite or beyond their limits, else gradients longer than clip_norm are
// shortened to it (torch.nn.utils.clip_grad_norm_: by min(1, clip_norm / (norm + 1e-6))).
struct FinalizeGradNormArgs {
  const double* block_sums;  // of sum_squares
  int64_t blocks;
  StepState* step;
  bool clamped = false;  // the second time in a step, after clamp: only the clip factor is computed anew
};

// x = min(max(x, -limit), limit), in place; with a step the limit is multiplied with its loss_scale.
struct ClampArgs {
  TensorView x;
  double limit;
  const StepState* step = nullptr;
};

// Elements [begin, end) of parameter buffers that are treated alike.
struct AdamWRange {
  int64_t begin, end;
  double weight_decay;
  double lr_scale = 1;
};

// AdamW (Loshchilov & Hutter 2019, Algorithm 2, with PyTorch's placement of eps), with the step's lr times
// the range's lr_scale, the step's grad_scale and t = updates, 1 for the first:
//   g = grad_scale * grad; p -= lr wd p; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
//   p -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
// With grad_scale = 0 nothing changes.
struct AdamWArgs {
  TensorView param, grad, m, v;        // [elements], whole buffers
  std::span<const AdamWRange> ranges;  // in ascending order, apart; nothing outside them changes
  double beta1, beta2, eps;
  const StepState* step;
};

// y = x x^T, of which one triangle is computed and mirrored (BLAS: syrk). x is rounded to `compute` (fp32,
// bf16; fp64 when all is fp64).
struct SyrkArgs {
  TensorView y;  // [m,m]
  TensorView x;  // [m,n]
  DType compute = DType::f32;
};

// A schedule of Muon's momentum: from `first` to `peak` over the first `warmup` steps, and to `last` over the
// steps from `decline` on.
struct MuonMomentum {
  double first = 0.95, peak = 0.95, last = 0.95;
  int64_t warmup = 0;
  int64_t decline = 0, steps = 0;  // steps: of the run

  double at(int64_t step) const {
    const auto way = [](int64_t done, int64_t all) {
      return static_cast<double>(done) / static_cast<double>(all);
    };
    if (step < warmup) return first + (peak - first) * way(step, warmup);
    if (step < decline || steps <= decline) return peak;
    return peak + (last - peak) * way(std::min(step, steps) - decline, steps - decline);
  }
};

// Muon (Jordan et al. 2024) for matrices, each by itself. With G = grad_scale * grad, mu the momentum of the
// step and lr = step.lr:
//   M += (1 - mu) (G - M);  U = G + mu (M - G)
//   X = U, normalised; then five times X = a X + (b A + c A A) X with A = X X^T (or with X^T where it is the
//   smaller one), whose products are rounded to `compute`
//   p -= lr decay p + lr rate X
// torch is torch.optim.Muon: X = U / max(|U|, 1e-7), and Jordan's a, b, c. nanochat is MuonAdamW of nanochat
// 92d63d4: rows of U get equal norms before (MuonEq, arXiv 2603.28254), X = U / (1.01 |U| + 1e-6), a, b, c of
// Polar Express (Amsel et al. 2025); then X gets the norm sqrt(min(rows, cols)) (arXiv 2602.21545), its
// rows or columns, whichever are more, are divided by the root of a running mean of their squares at the same
// norm (NorMuon, Li et al. 2025), and p decays only where X has its sign, ever less by half a cosine over
// momentum.steps.
enum class MuonForm : uint8_t { torch, nanochat };
struct MuonMatrix {
  TensorView param, grad, m;  // [rows,cols], dense
  TensorView v = {};          // [max(rows,cols)] nanochat: the running mean
  TensorView change;          // [1]: gets the sum of squares of what p has changed by
  double rate, decay;
};
struct MuonArgs {
  MuonForm form;
  std::span<const MuonMatrix> matrices;  // of one type and any shapes, without memory in common
  MuonMomentum momentum;
  DType compute = DType::f32;  // fp32 or bf16; fp64 when all is fp64
  const StepState* step;       // where its grad_scale is 0 nothing changes
};

// A moving average: average += max(1 - decay, 1 / t) (x - average) with t = updates, 1 for the first, so that
// it begins as the mean of what there is. Where the step's grad_scale is 0 nothing changes.
struct EmaArgs {
  TensorView average, x;  // [elements]
  double decay;
  const StepState* step;
};

// X(name, ArgsType): every op, in table order.
#define GPT_FOR_EACH_OP(X)                            \
  X(embedding_forward, EmbeddingArgs)                 \
  X(embedding_backward, EmbeddingBackwardArgs)        \
  X(norm_forward, NormArgs)                           \
  X(norm_backward, NormBackwardArgs)                  \
  X(linear_forward, LinearArgs)                       \
  X(linear_backward_input, LinearBackwardInputArgs)   \
  X(linear_backward_weight, LinearBackwardWeightArgs) \
  X(pack_matrix, PackMatrixArgs)                      \
  X(act_forward, ActArgs)                             \
  X(act_backward, ActBackwardArgs)                    \
  X(rope, RopeArgs)                                   \
  X(qk_norm_forward, QkNormArgs)                      \
  X(qk_norm_backward, QkNormBackwardArgs)             \
  X(dropout, DropoutArgs)                             \
  X(attention_forward, AttentionArgs)                 \
  X(attention_backward, AttentionBackwardArgs)        \
  X(scatter_rows, ScatterRowsArgs)                    \
  X(compact_rows, CompactRowsArgs)                    \
  X(select_candidates, SelectCandidatesArgs)          \
  X(softcap, SoftcapArgs)                             \
  X(cross_entropy, CrossEntropyArgs)                  \
  X(pick_rows, PickRowsArgs)                          \
  X(pick_rows_backward, PickRowsBackwardArgs)         \
  X(label_loss, LabelLossArgs)                        \
  X(add, AddArgs)                                     \
  X(scale, ScaleArgs)                                 \
  X(preference, PreferenceArgs)                       \
  X(sum_losses, SumLossesArgs)                        \
  X(sum_squares, SumSquaresArgs)                      \
  X(finalize_grad_norm, FinalizeGradNormArgs)         \
  X(clamp, ClampArgs)                                 \
  X(adamw, AdamWArgs)                                 \
  X(syrk, SyrkArgs)                                   \
  X(muon, MuonArgs)                                   \
  X(ema, EmaArgs)

// Scratch in bytes; `shared` is one region, `per_thread` one for each thread of the pool.
struct ScratchNeed {
  int64_t shared = 0;
  int64_t per_thread = 0;
};

// The key of a dropout site: equal arguments give equal masks.
uint64_t dropout_key(uint64_t seed, uint64_t step, uint32_t site, uint32_t layer);

}  // namespace gpt
