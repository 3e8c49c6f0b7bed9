#pragma once

// Argument structs of the ops (ops.h) for the layers of a decoder, forward and backward, and for the KV
// cache.

#include <cstdint>
#include <optional>

#include "base/rng.h"
#include "kernels/op_fields.h"
#include "kernels/packed_matrix.h"
#include "kernels/step_state.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// ---------------------------------------------------------------------------------------------------
// Embedding: out[n] = wte[ids[n]] (+ wpe[positions[n]])
struct EmbeddingArgs {
  TensorView out;                       // [N,C] act
  DeviceSpan<const int32_t> ids;        // [N], each in [0,V)
  DeviceSpan<const int32_t> positions;  // [N], each in [0,n_ctx); used only with wpe
  TensorView wte;                       // [V,C] fp32, bf16, fp16 or quantized
  TensorView wpe = {};                  // [n_ctx,C] fp32, bf16 or fp16, or absent
  GPT_FIELDS(out, ids, positions, wte, wpe)
};

// Computes dwte[ids[n]] += dout[n] and dwpe[positions[n]] += dout[n], with rows in order. If accumulate_wte
// is false, dwte is set to zero first; accumulate_wpe does the same for dwpe.
struct EmbeddingBackwardArgs {
  TensorView dout;  // [N,C] act
  DeviceSpan<const int32_t> ids;
  DeviceSpan<const int32_t> positions;
  TensorView dwte = {};  // [V,C] or absent (frozen)
  TensorView dwpe = {};
  bool accumulate_wte = true;
  bool accumulate_wpe = true;
  GPT_FIELDS(dout, ids, positions, dwte, dwpe, accumulate_wte, accumulate_wpe)
};

// ---------------------------------------------------------------------------------------------------
// LayerNorm (Ba et al. 2016) computes out = (x - mean) / sqrt(var + eps) * gain + bias, where var is divided
// by n (not n-1). RMSNorm (Zhang & Sennrich 2019) computes out = x / sqrt(mean(x^2) + eps) * gain.
enum class NormKind : uint8_t { layer, rms };

// If `add` is given, the op first computes sum = x + add (the residual connection), then out = norm(sum).
struct NormArgs {
  NormKind kind;
  double eps;
  TensorView out;        // [N,C] act
  TensorView x;          // [N,C] act
  TensorView gain = {};  // [C] or absent (1)
  TensorView bias = {};  // [C] or absent (0)
  TensorView add = {};   // [N,C] act, or absent
  TensorView sum = {};   // [N,C] in the dtype of x; required with `add`; may alias x
  TensorView mean = {};  // [N]: saved for the backward pass of LayerNorm, or absent
  TensorView rstd = {};  // [N]: saved for the backward pass, or absent
  GPT_FIELDS(kind, eps, out, x, gain, bias, add, sum, mean, rstd)
};

// Computes dx, the gradient of the norm's input, and adds dresidual to it if given. dgain and dbias are sums
// over the rows; with `accumulate` they are added to the previous values. dx may alias dresidual, or dout if
// the dtypes are equal.
struct NormBackwardArgs {
  NormKind kind;
  TensorView dx;    // [N,C] act
  TensorView dout;  // [N,C] act
  TensorView x;     // [N,C] act: input of the norm (`sum` if the forward call had an `add`, else `x`)
  TensorView gain = {};
  TensorView mean = {};
  TensorView rstd;
  TensorView dresidual = {};  // [N,C] in the dtype of dx: gradient from the residual branch, or absent
  TensorView dgain = {};      // [C] or absent
  TensorView dbias = {};      // [C] or absent
  bool accumulate = true;
  GPT_FIELDS(kind, dx, dout, x, gain, mean, rstd, dresidual, dgain, dbias, accumulate)
};

// ---------------------------------------------------------------------------------------------------
// Activation functions: out = act(x), or out = act(gate) * x if a gate is given (Shazeer 2020). gelu is x
// Phi(x), and gelu_tanh is its tanh approximation (Hendrycks & Gimpel 2016); relu2 is max(0,x)^2; silu is x /
// (1 + e^-x). All views of a call have the same dtype.
enum class Activation : uint8_t { gelu_tanh, gelu, relu, relu2, silu };

struct ActArgs {
  Activation act;
  TensorView out;        // [N,F] act
  TensorView x;          // [N,F] act
  TensorView gate = {};  // [N,F] act, or absent
  GPT_FIELDS(act, out, x, gate)
};

// Backward pass of act_forward. dx may alias dout.
struct ActBackwardArgs {
  Activation act;
  TensorView dx;          // [N,F] act
  TensorView dgate = {};  // [N,F] act, or absent
  TensorView dout;        // [N,F] act
  TensorView x;
  TensorView gate = {};
  GPT_FIELDS(act, dx, dgate, dout, x, gate)
};

// ---------------------------------------------------------------------------------------------------
// Linear layer: y = x w^T + bias. Weights have the shape [out,in], as in PyTorch. The caller passes either
// `w` or `packed`. `w` has any floating-point dtype (and may be stored transposed) or consists of quantized
// rows (kernels/quant.h). The dtype of `packed` is the dtype of the matrix product (see PackedMatrix).
struct LinearArgs {
  TensorView y;          // [N,out] act; the row stride ld may exceed out
  TensorView x;          // [N,in] act
  TensorView w = {};     // [out,in]
  TensorView bias = {};  // [out] or absent
  // If true, the bits of a row of y depend only on that row of x, not on N. Inference requires it.
  bool row_invariant = false;
  PackedMatrix packed = {};  // packed for x w^T; replaces w
  // Dtype in which the product with `w` is computed, as if w were packed in that dtype. Default: the dtype of
  // w, or fp32 for 16-bit w.
  std::optional<DType> compute = {};
  // If `act` is set, y = act(x w^T + bias), and `pre` receives the input of act.
  std::optional<Activation> act = {};
  TensorView pre = {};  // [N,out] act, or absent
  GPT_FIELDS(y, x, w, bias, row_invariant, packed, compute, act, pre)
};

// Computes dx = dy w. With `accumulate`, adds to dx.
struct LinearBackwardInputArgs {
  TensorView dx;      // [N,in] act
  TensorView dy;      // [N,out] act
  TensorView w = {};  // [out,in]; quantized rows are dequantized to fp32
  bool accumulate = false;
  PackedMatrix packed = {};  // packed for dy w; replaces w
  // If `act` is set, dx = (dy w) * act'(pre). Cannot be combined with `accumulate`.
  std::optional<Activation> act = {};
  TensorView pre = {};  // [N,in] act
  GPT_FIELDS(dx, dy, w, accumulate, packed, act, pre)
};

// Computes dw += dy^T x and dbias += column sums of dy. Without `accumulate`, overwrites dw and dbias
// instead. The operands of the product are rounded to `compute` (fp32, bf16 or fp16; fp64 if all views are
// fp64).
struct LinearBackwardWeightArgs {
  TensorView dw;          // [out,in]
  TensorView dbias = {};  // [out] or absent
  TensorView dy;          // [N,out] act
  TensorView x;           // [N,in] act
  bool accumulate = true;
  DType compute = DType::f32;
  GPT_FIELDS(dw, dbias, dy, x, accumulate, compute)
};

// Fills a packed matrix with the concatenated rows of all parts.
struct PackMatrixArgs {
  PackedMatrix dst;  // `data` points to packed_bytes() bytes; dtype and sizes must be set
  // Each part is [out_i,in] in fp32, bf16 or fp16, or quantized in the dtype of dst, with any row stride
  // `ld`.
  HostSpan<TensorView> parts;
  GPT_FIELDS(dst, parts)
};

// ---------------------------------------------------------------------------------------------------
// Applies RoPE (Su et al. 2021, 3.4.2) in place: the pair (a,b) becomes (a c - sign b s, b c + sign a s),
// where c is the cosine and s the sine. The pairs are elements (i, i + D/2) of a head, or (2i, 2i+1) if
// `interleaved`. The backward pass is the same op with -sign.
struct RopeArgs {
  TensorView x;  // [N,n_head*D] act; the row stride ld may exceed the width
  int64_t n_head;
  int64_t head_dim;                     // even
  DeviceSpan<const int32_t> positions;  // [N], each in [0, rows of cos)
  TensorView cos, sin;                  // [P,D/2]
  int sign = 1;
  bool interleaved = false;
  GPT_FIELDS(x, n_head, head_dim, positions, cos, sin, sign, interleaved)
};

// Applies RMSNorm to every head, in place. Without a gain this is the QK norm of nanochat; with a gain shared
// by all heads it is the QK norm of Qwen3.
struct QkNormArgs {
  double eps;
  TensorView x;  // [N,n_head*D] act: input on entry; on return the normalized values times the gain
  int64_t n_head;
  int64_t head_dim;
  TensorView rstd = {};    // [N,n_head] or absent
  TensorView gain = {};    // [D]; 1 if absent
  TensorView normed = {};  // [N,n_head*D] act: receives the normalized values before the gain; or absent
  GPT_FIELDS(eps, x, n_head, head_dim, rstd, gain, normed)
};

// Backward pass of qk_norm_forward, in place. Computes dx = rstd (g - y mean(g y)), where g = dy gain. dgain
// is the sum of dy y over rows and heads; with `accumulate` it is added to the previous value.
struct QkNormBackwardArgs {
  TensorView dx;    // [N,n_head*D] act: dy on entry, dx on return
  TensorView y;     // [N,n_head*D] act: the normalized values before the gain
  TensorView rstd;  // [N,n_head]
  int64_t n_head;
  int64_t head_dim;
  TensorView gain = {};   // [D] or absent
  TensorView dgain = {};  // [D] or absent
  bool accumulate = true;
  GPT_FIELDS(dx, y, rstd, n_head, head_dim, gain, dgain, accumulate)
};

// ---------------------------------------------------------------------------------------------------
// Counter-based dropout (Srivastava et al. 2014). Element e of a dropout site is dropped if word e of
// Philox(key) is below p 2^32; kept elements are multiplied by 1/(1-p). The element index is e = (first_row +
// row) * cols + col. Rows are counted over the whole step, so dropout masks do not depend on recomputation or
// micro-batches. The op derives the key from the seed and the step number (dropout_key), so its arguments are
// the same in every step.
struct DropoutKey {
  double p = 0;  // dropout probability; 0: no dropout
  RandomSite site = RandomSite::init;
  uint32_t layer = 0;
  int64_t first_row = 0;             // index of the first row within the step
  DeviceSpan<const StepState> step;  // [1]
};

// Applies dropout to values in the forward pass and to gradients in the backward pass.
struct DropoutArgs {
  TensorView out;  // [N,C] act; may alias x if the dtypes are equal
  TensorView x;    // [N,C] act
  DropoutKey dropout;
  GPT_FIELDS(out, x, dropout)
};

// ---------------------------------------------------------------------------------------------------
// Causal softmax attention. Query head h uses key/value head h / (H/Hkv). Query i of a sequence is at
// position kv_len - q_len + i and attends to all keys up to its own position. With a sliding window, it only
// attends to keys at positions greater than its own position minus `window`.
struct AttentionSeq {
  int64_t q_start;  // first row of q and out
  int64_t q_len;
  int64_t kv_len;  // number of keys, including the keys of this call's queries; >= q_len
  // Without pages, key t is stored in row kv_start + t of k and v. With pages, key t is stored in row p[t /
  // page_size] * page_size + t % page_size, where p[i] is entry first_page + i of the page table. Page table
  // entries for pages that no query attends to are not read.
  int64_t kv_start = 0;
  int64_t first_page = 0;
};

struct AttentionShape {
  int64_t n_head;
  int64_t n_kv_head;
  int64_t head_dim;
  double scale;             // factor of q k, usually 1/sqrt(D); above 0
  int64_t page_size = 0;    // rows of a KV cache page; 0: keys are stored in consecutive rows
  int64_t window = 0;       // size of the sliding window in keys; 0: a query attends to all earlier keys
  DropoutKey dropout = {};  // dropout of attention weights; element index ((first_row + row)*H +
                            // h)*dropout_stride + key
  int64_t dropout_stride = 0;
  int64_t max_q = 0, max_kv = 0;  // maximum number of queries and keys of a sequence
};

struct AttentionArgs {
  AttentionShape shape;
  DeviceSpan<const AttentionSeq> seqs;
  DeviceSpan<const int32_t> pages = {};  // concatenated page tables of all sequences; absent without pages
  TensorView out;                        // [N,H*D] act
  TensorView q;                          // [N,H*D] act
  TensorView k, v;  // [rows,Hkv*D] act; or int8 with scales; or q4_0 if D % 32 = 0; same dtype
  TensorView k_scale = {}, v_scale = {};  // [rows,Hkv] fp32: scales of int8 keys and values
  TensorView lse = {};  // [N,H]: log of the softmax denominator, for the backward pass, or absent
  // [seqs,H,max_q,max_kv] or absent: receives the attention weights after dropout, for inspection. Weights of
  // masked keys are zero.
  TensorView weights = {};
  GPT_FIELDS(shape, seqs, pages, out, q, k, v, k_scale, v_scale, lse, weights)
};

// Computes dq, dk and dv for training. Requires q_len = kv_len. Each row of k and v must belong to exactly
// one sequence.
struct AttentionBackwardArgs {
  AttentionShape shape;
  DeviceSpan<const AttentionSeq> seqs;
  TensorView dq;         // [N,H*D] act; all activations of a call have the same dtype
  TensorView dk, dv;     // [rows,Hkv*D]
  TensorView dout, out;  // [N,H*D]
  TensorView q, k, v;
  TensorView lse;  // [N,H]
  GPT_FIELDS(shape, seqs, dq, dk, dv, dout, out, q, k, v, lse)
};

// Copies row n of src to row rows[n] of dst (the KV cache) and converts it to the dtype of dst. In int8,
// every group of C / G elements has the scale max|x| / 127 and stores the values round(x / scale). In q4_0,
// rows consist of whole quantization blocks.
struct ScatterRowsArgs {
  TensorView dst;                  // [R,C] act, int8 or q4_0
  TensorView src;                  // [N,C] act
  DeviceSpan<const int64_t> rows;  // [N], each in [0,R)
  TensorView scale = {};           // [R,G] fp32; required with int8
  GPT_FIELDS(dst, src, rows, scale)
};

// Moves row rows[i] of x to row i, in place. `rows` must be ascending.
struct CompactRowsArgs {
  TensorView x;                    // [N,C] act
  DeviceSpan<const int64_t> rows;  // [count], each in [0,N)
  GPT_FIELDS(x, rows)
};

}  // namespace gpt
