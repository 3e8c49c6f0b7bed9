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
  GPT_FIELDS(kind, eps, out, x, gain, bias, add, sum, mean, rstd)
};

// dx = d(norm) (+ dresidual); dgain, dbias = their sums over the rows (+= with accumulate). dx may be
// dout (of the same type) or dresidual.
struct NormBackwardArgs {
  NormKind kind;
  TensorView dx;    // [N,C] act
  TensorView dout;  // [N,C] act
  TensorView x;  // [N,C] act, the input of the norm: `sum` of the forward call if it had an `add`, else `x`
  TensorView gain = {};
  TensorView mean = {};
  TensorView rstd;
  TensorView dresidual = {};  // [N,C] of the type of dx: gradient that reaches x by another way; or absent
  TensorView dgain = {};      // [C] or absent
  TensorView dbias = {};      // [C] or absent
  bool accumulate = true;
  GPT_FIELDS(kind, dx, dout, x, gain, mean, rstd, dresidual, dgain, dbias, accumulate)
};

// ---------------------------------------------------------------------------------------------------
// Activations: out = act(x), or act(gate) * x with a gate (Shazeer 2020). gelu is x Phi(x), gelu_tanh its
// tanh approximation (Hendrycks & Gimpel 2016); relu2 = max(0,x)^2; silu = x / (1 + e^-x). All views of a
// call have one type.
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
// Linear: y = x w^T + bias. Weights are [out,in] as in PyTorch: either `w`, of any floating-point type and
// perhaps stored transposed, or quantized rows (kernels/quant.h); or `packed`, whose type is then the type of
// the product (see PackedMatrix).
struct LinearArgs {
  TensorView y;          // [N,out] act; ld may exceed out
  TensorView x;          // [N,in] act
  TensorView w = {};     // [out,in]
  TensorView bias = {};  // [out] or absent
  // The bits of a row of y depend on that row of x alone, never on N: inference promises that.
  bool row_invariant = false;
  PackedMatrix packed = {};  // of x w^T; instead of w
  // Type of a product with `w`, as if packed in it. Default: the type of w, or fp32 for 16-bit w.
  std::optional<DType> compute = {};
  // With `act`: y = act(x w^T + bias), and `pre` gets the argument of act.
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
// product are rounded to `compute` (fp32, bf16, fp16; fp64 when all is fp64).
struct LinearBackwardWeightArgs {
  TensorView dw;          // [out,in]
  TensorView dbias = {};  // [out] or absent
  TensorView dy;          // [N,out] act
  TensorView x;           // [N,in] act
  bool accumulate = true;
  DType compute = DType::f32;
  GPT_FIELDS(dw, dbias, dy, x, accumulate, compute)
};

// Fills a packed matrix from its rows: the parts, one below the other.
struct PackMatrixArgs {
  PackedMatrix dst;  // its memory has packed_bytes() of the table; types and sizes are set
  // [out_i,in] fp32, bf16, fp16 or quantized (then in the type of dst); rows may be `ld` apart
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

// RMSNorm of every head, in place: nanochat's QK norm, and with a gain that all heads share Qwen3's.
struct QkNormArgs {
  double eps;
  TensorView x;  // [N,n_head*D] act, becomes the normalised values, times the gain
  int64_t n_head;
  int64_t head_dim;
  TensorView rstd = {};    // [N,n_head] or absent
  TensorView gain = {};    // [D] or absent (1)
  TensorView normed = {};  // [N,n_head*D] act, with a gain: the values before it, or absent
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
// Counter-based dropout (Srivastava et al. 2014): element e of a site is dropped when word e of Philox(key)
// is below p 2^32; elements that are kept are multiplied by 1/(1-p). e = (first_row + row) * cols + col, with
// rows counted over the whole step, so that masks survive recomputation and micro-batching. The kernel
// computes the key from the seed and the number of the step (dropout_key), so that the arguments of a step do
// not change.
struct DropoutKey {
  double p = 0;  // 0: off
  RandomSite site = RandomSite::init;
  uint32_t layer = 0;
  int64_t first_row = 0;             // rows of the step before the first one here
  DeviceSpan<const StepState> step;  // [1]
};

// Dropout of values in the forward pass, and of gradients in the backward pass.
struct DropoutArgs {
  TensorView out;  // [N,C] act; may be x when it has the type of x
  TensorView x;    // [N,C] act
  DropoutKey dropout;
  GPT_FIELDS(out, x, dropout)
};

// ---------------------------------------------------------------------------------------------------
// Causal softmax attention. Query head h uses key/value head h / (H/Hkv). Query i of a sequence sits at
// position kv_len - q_len + i and sees keys at positions <= its own (and > its own - window).
struct AttentionSeq {
  int64_t q_start;  // first row of q and out
  int64_t q_len;
  int64_t kv_len;  // number of keys, those of this call included; >= q_len
  // Key t is row kv_start + t of k and v; or, with pages, row p[t / page_size] * page_size + t % page_size,
  // where p[i] is entry first_page + i of the page table. Entries of pages that no query sees need not exist.
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
  DropoutKey dropout = {};  // of the weights; element ((first_row + row)*H + h)*dropout_stride + key
  int64_t dropout_stride = 0;
  int64_t max_q = 0, max_kv = 0;  // the most queries and keys of a sequence
};

struct AttentionArgs {
  AttentionShape shape;
  DeviceSpan<const AttentionSeq> seqs;
  DeviceSpan<const int32_t> pages = {};   // the page tables of all sequences; absent without pages
  TensorView out;                         // [N,H*D] act
  TensorView q;                           // [N,H*D] act
  TensorView k, v;                        // [rows,Hkv*D] act, of one type; int8 with scales; q4_0, D % 32 = 0
  TensorView k_scale = {}, v_scale = {};  // [rows,Hkv] fp32: what int8 values are multiplied with
  TensorView lse = {};  // [N,H]: log of the softmax denominator, saved for backward, or absent
  // Attention weights after dropout, to be inspected: [seqs,H,max_q,max_kv], zero where masked; or absent.
  TensorView weights = {};
  GPT_FIELDS(shape, seqs, pages, out, q, k, v, k_scale, v_scale, lse, weights)
};

// Writes dq, dk, dv (training: sequences with q_len = kv_len, every k/v row in exactly one of them).
struct AttentionBackwardArgs {
  AttentionShape shape;
  DeviceSpan<const AttentionSeq> seqs;
  TensorView dq;         // [N,H*D] act; all activations of the call have one type
  TensorView dk, dv;     // [rows,Hkv*D]
  TensorView dout, out;  // [N,H*D]
  TensorView q, k, v;
  TensorView lse;  // [N,H]
  GPT_FIELDS(shape, seqs, dq, dk, dv, dout, out, q, k, v, lse)
};

// Copies row n of src to row rows[n] of dst (the KV cache), with conversion. For int8 every group of C / G
// elements gets the scale max|x| / 127 and the values round(x / scale). Rows of q4_0 are whole quantization
// blocks.
struct ScatterRowsArgs {
  TensorView dst;                  // [R,C] act, int8 or q4_0
  TensorView src;                  // [N,C] act
  DeviceSpan<const int64_t> rows;  // [N], each in [0,R)
  TensorView scale = {};           // [R,G] fp32, with int8
  GPT_FIELDS(dst, src, rows, scale)
};

// Moves row rows[i] of x to row i, in place; rows ascend.
struct CompactRowsArgs {
  TensorView x;                    // [N,C] act
  DeviceSpan<const int64_t> rows;  // [count], each in [0,N)
  GPT_FIELDS(x, rows)
};

}  // namespace gpt
