#pragma once

// Arguments of ops (ops.h): the layers of a decoder, forward and backward, and the KV cache.

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
  DeviceSpan<const int32_t> positions;  // [N], each in [0,n_ctx); read only with wpe
  TensorView wte;                       // [V,C] fp32, bf16, fp16 or quantized
  TensorView wpe = {};                  // [n_ctx,C] fp32, bf16 or fp16, or absent
  GPT_FIELDS(out, ids, positions, wte, wpe)
};

// dwte[ids[n]] += dout[n], dwpe[positions[n]] += dout[n], rows in order. Without accumulate_wte
// (accumulate_wpe) the gradient starts from zero.
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
// LayerNorm (Ba et al. 2016): out = (x - mean) / sqrt(var + eps) * gain + bias, with var divided by n (not
// n-1). RMSNorm (Zhang & Sennrich 2019): out = x / sqrt(mean(x^2) + eps) * gain.
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
  TensorView sum = {};   // [N,C] with `add`, in the dtype of x; may be x
  TensorView mean = {};  // [N]; saved for backward (layer only) or absent
  TensorView rstd = {};  // [N]; saved for backward or absent
  GPT_FIELDS(kind, eps, out, x, gain, bias, add, sum, mean, rstd)
};

// dx = d(norm) (+ dresidual); dgain, dbias = sums over the rows (+= with accumulate). dx may be dresidual, or
// dout if it has the same dtype.
struct NormBackwardArgs {
  NormKind kind;
  TensorView dx;    // [N,C] act
  TensorView dout;  // [N,C] act
  TensorView x;  // [N,C] act, the input of the norm: `sum` of the forward call if it had an `add`, else `x`
  TensorView gain = {};
  TensorView mean = {};
  TensorView rstd;
  TensorView dresidual = {};  // [N,C] in the dtype of dx: gradient of x from the residual branch, or absent
  TensorView dgain = {};      // [C] or absent
  TensorView dbias = {};      // [C] or absent
  bool accumulate = true;
  GPT_FIELDS(kind, dx, dout, x, gain, mean, rstd, dresidual, dgain, dbias, accumulate)
};

// ---------------------------------------------------------------------------------------------------
// Activations: out = act(x), or act(gate) * x with a gate (Shazeer 2020). gelu is x Phi(x), gelu_tanh its
// tanh approximation (Hendrycks & Gimpel 2016); relu2 = max(0,x)^2; silu = x / (1 + e^-x). All views of a
// call have the same dtype.
enum class Activation : uint8_t { gelu_tanh, gelu, relu, relu2, silu };

struct ActArgs {
  Activation act;
  TensorView out;        // [N,F] act
  TensorView x;          // [N,F] act
  TensorView gate = {};  // [N,F] act, or absent
  GPT_FIELDS(act, out, x, gate)
};

// dx may be dout.
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
// Linear: y = x w^T + bias. Weights are [out,in] as in PyTorch. They are given as `w`, with any
// floating-point dtype (possibly stored transposed) or quantized rows (kernels/quant.h), or as `packed`,
// whose dtype is the dtype of the product (see PackedMatrix).
struct LinearArgs {
  TensorView y;          // [N,out] act; ld may exceed out
  TensorView x;          // [N,in] act
  TensorView w = {};     // [out,in]
  TensorView bias = {};  // [out] or absent
  // The bits of a row of y depend only on that row of x, not on N. Required by inference.
  bool row_invariant = false;
  PackedMatrix packed = {};  // of x w^T; instead of w
  // Dtype of a product with `w`, as if w were packed in it. Default: the dtype of w, or fp32 for 16-bit w.
  std::optional<DType> compute = {};
  // With `act`: y = act(x w^T + bias), and `pre` receives the argument of act.
  std::optional<Activation> act = {};
  TensorView pre = {};  // [N,out] act, or absent
  GPT_FIELDS(y, x, w, bias, row_invariant, packed, compute, act, pre)
};

// dx = dy w (+ dx with accumulate).
struct LinearBackwardInputArgs {
  TensorView dx;      // [N,in] act
  TensorView dy;      // [N,out] act
  TensorView w = {};  // [out,in]; quantized rows are dequantized to fp32
  bool accumulate = false;
  PackedMatrix packed = {};  // of dy w; instead of w
  // With `act` (not with accumulate): dx = (dy w) * act'(pre).
  std::optional<Activation> act = {};
  TensorView pre = {};  // [N,in] act
  GPT_FIELDS(dx, dy, w, accumulate, packed, act, pre)
};

// dw += dy^T x, dbias += column sums of dy (= instead of += without accumulate). The operands of the
// product are rounded to `compute` (fp32, bf16, fp16; fp64 if all views are fp64).
struct LinearBackwardWeightArgs {
  TensorView dw;          // [out,in]
  TensorView dbias = {};  // [out] or absent
  TensorView dy;          // [N,out] act
  TensorView x;           // [N,in] act
  bool accumulate = true;
  DType compute = DType::f32;
  GPT_FIELDS(dw, dbias, dy, x, accumulate, compute)
};

// Fills a packed matrix from its rows, the concatenated rows of the parts.
struct PackMatrixArgs {
  PackedMatrix dst;  // memory of packed_bytes() bytes; dtype and sizes must be set
  // [out_i,in] fp32, bf16, fp16, or quantized in the dtype of dst; any row stride `ld`
  HostSpan<TensorView> parts;
  GPT_FIELDS(dst, parts)
};

// ---------------------------------------------------------------------------------------------------
// RoPE (Su et al. 2021, 3.4.2), in place: pair (a,b) becomes (a c - sign b s, b c + sign a s). Pairs are
// (i, i + D/2), or (2i, 2i+1) when interleaved. The backward pass is the same op with -sign.
struct RopeArgs {
  TensorView x;  // [N,n_head*D] act; ld may exceed that
  int64_t n_head;
  int64_t head_dim;                     // even
  DeviceSpan<const int32_t> positions;  // [N], each in [0, rows of cos)
  TensorView cos, sin;                  // [P,D/2]
  int sign = 1;
  bool interleaved = false;
  GPT_FIELDS(x, n_head, head_dim, positions, cos, sin, sign, interleaved)
};

// RMSNorm of every head, in place: nanochat's QK norm, or Qwen3's with a gain that all heads share.
struct QkNormArgs {
  double eps;
  TensorView x;  // [N,n_head*D] act: input on entry; normalized values times the gain on return
  int64_t n_head;
  int64_t head_dim;
  TensorView rstd = {};    // [N,n_head] or absent
  TensorView gain = {};    // [D] or absent (1)
  TensorView normed = {};  // [N,n_head*D] act, with a gain: receives the values before the gain; or absent
  GPT_FIELDS(eps, x, n_head, head_dim, rstd, gain, normed)
};

// In place on dy: dx = rstd (g - y mean(g y)) with g = dy gain; dgain = the sum of dy y over rows and heads
// (+= with accumulate).
struct QkNormBackwardArgs {
  TensorView dx;    // [N,n_head*D] act: dy on entry, dx on return
  TensorView y;     // [N,n_head*D] act: the normalised values, before the gain
  TensorView rstd;  // [N,n_head]
  int64_t n_head;
  int64_t head_dim;
  TensorView gain = {};   // [D] or absent
  TensorView dgain = {};  // [D] or absent
  bool accumulate = true;
  GPT_FIELDS(dx, y, rstd, n_head, head_dim, gain, dgain, accumulate)
};

// ---------------------------------------------------------------------------------------------------
// Counter-based dropout (Srivastava et al. 2014). Element e of a site is dropped if word e of Philox(key) is
// below p 2^32; kept elements are multiplied by 1/(1-p). e = (first_row + row) * cols + col, with rows
// counted over the whole step, so masks do not depend on recomputation or micro-batches. The kernel computes
// the key from the seed and the step number (dropout_key), so the arguments are the same in every step.
struct DropoutKey {
  double p = 0;  // 0: off
  RandomSite site = RandomSite::init;
  uint32_t layer = 0;
  int64_t first_row = 0;             // index of the first row within the step
  DeviceSpan<const StepState> step;  // [1]
};

// Applies dropout to values in the forward pass and to gradients in the backward pass.
struct DropoutArgs {
  TensorView out;  // [N,C] act; may be x if it has the same dtype
  TensorView x;    // [N,C] act
  DropoutKey dropout;
  GPT_FIELDS(out, x, dropout)
};

// ---------------------------------------------------------------------------------------------------
// Causal softmax attention. Query head h uses key/value head h / (H/Hkv). Query i of a sequence has position
// kv_len - q_len + i and sees keys at positions <= its own (and > its own - window).
struct AttentionSeq {
  int64_t q_start;  // first row of q and out
  int64_t q_len;
  int64_t kv_len;  // number of keys, including those of this call; >= q_len
  // Without pages, key t is row kv_start + t of k and v. With pages, it is row p[t / page_size] * page_size +
  // t % page_size, where p[i] is entry first_page + i of the page table. Entries of pages that no query sees
  // may be missing.
  int64_t kv_start = 0;
  int64_t first_page = 0;
};

struct AttentionShape {
  int64_t n_head;
  int64_t n_kv_head;
  int64_t head_dim;
  double scale;             // 1/sqrt(D); more than 0
  int64_t page_size = 0;    // rows of a cache page; 0: keys are consecutive rows
  int64_t window = 0;       // 0: all earlier keys
  DropoutKey dropout = {};  // of attention weights; element ((first_row + row)*H + h)*dropout_stride + key
  int64_t dropout_stride = 0;
  int64_t max_q = 0, max_kv = 0;  // maximum queries and keys of a sequence
};

struct AttentionArgs {
  AttentionShape shape;
  DeviceSpan<const AttentionSeq> seqs;
  DeviceSpan<const int32_t> pages = {};  // page tables of all sequences; absent without pages
  TensorView out;                        // [N,H*D] act
  TensorView q;                          // [N,H*D] act
  TensorView k, v;  // [rows,Hkv*D] act, of equal dtype; int8 with scales; q4_0, D % 32 = 0
  TensorView k_scale = {}, v_scale = {};  // [rows,Hkv] fp32: scales of int8 values
  TensorView lse = {};  // [N,H]: log of the softmax denominator, saved for backward, or absent
  // Receives attention weights after dropout, for inspection: [seqs,H,max_q,max_kv], zero if masked; or
  // absent.
  TensorView weights = {};
  GPT_FIELDS(shape, seqs, pages, out, q, k, v, k_scale, v_scale, lse, weights)
};

// Writes dq, dk, dv. For training: requires q_len = kv_len, and every row of k and v in exactly one sequence.
struct AttentionBackwardArgs {
  AttentionShape shape;
  DeviceSpan<const AttentionSeq> seqs;
  TensorView dq;         // [N,H*D] act; all activations of the call have the same dtype
  TensorView dk, dv;     // [rows,Hkv*D]
  TensorView dout, out;  // [N,H*D]
  TensorView q, k, v;
  TensorView lse;  // [N,H]
  GPT_FIELDS(shape, seqs, dq, dk, dv, dout, out, q, k, v, lse)
};

// Copies row n of src to row rows[n] of dst (the KV cache) and converts it. For int8, every group of C / G
// elements has the scale max|x| / 127 and the values round(x / scale). Rows of q4_0 are whole quantization
// blocks.
struct ScatterRowsArgs {
  TensorView dst;                  // [R,C] act, int8 or q4_0
  TensorView src;                  // [N,C] act
  DeviceSpan<const int64_t> rows;  // [N], each in [0,R)
  TensorView scale = {};           // [R,G] fp32, with int8
  GPT_FIELDS(dst, src, rows, scale)
};

// Moves row rows[i] of x to row i, in place. rows must be ascending.
struct CompactRowsArgs {
  TensorView x;                    // [N,C] act
  DeviceSpan<const int64_t> rows;  // [count], each in [0,N)
  GPT_FIELDS(x, rows)
};

}  // namespace gpt
