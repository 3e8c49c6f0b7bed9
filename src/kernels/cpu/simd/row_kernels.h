#pragma once

#include <cstdint>

#include "kernels/cpu/simd/stored.h"

namespace gpt {

// The SIMD row kernels are plain functions on rows and blocks, one set for each instruction set. cpu/drivers
// handles tensors, threads and scratch memory. No alignment is required. An output may alias one of the
// inputs (exactly, not shifted) if the op allows it. Optional pointers may be null. The Stored value next to
// a void* row is the dtype of that row. It is never i8. Rows of the residual stream are fp32.

struct NormRow {
  bool center;  // true: LayerNorm; false: RMSNorm
  double eps;
  int64_t n;
  Stored out_type, add_type;
  void* out;
  const float* x;
  const float* gain;  // optional
  const float* bias;  // optional
  const void* add;    // optional; if given, sum = x + add is normalized
  float* sum;
  float* mean;  // optional, one value
  float* rstd;  // optional, one value
};

struct NormBackwardRow {
  bool center;
  int64_t n;
  float mean, rstd;
  Stored dout_type;
  float* dx;
  const void* dout;
  const float* x;
  const float* gain;       // optional
  const float* dresidual;  // optional
  float* dgain;            // optional; added to, or overwritten if `first`
  float* dbias;            // optional; added to, or overwritten if `first`
  bool first;
};

// Arguments for the loss and the gradient of one row; see CrossEntropyArgs.
struct CrossEntropyRow {
  int64_t n;
  Stored dlogits_type;
  const float* logits;
  int64_t target;  // >= 0
  void* dlogits;   // optional; may start at the address of logits
  double scale;
  double softcap;
  double sharpness;  // 1 / temperature
};

// Constants of an AdamW step, computed from the double-precision settings.
struct AdamWStep {
  float grad_scale;
  float one_minus_beta1, one_minus_beta2;
  float step_size;   // lr / (1 - beta1^t)
  float root_scale;  // 1 / sqrt(1 - beta2^t)
  float eps;
  float decay;  // lr * weight_decay
};

// Dropout of elements [first, first + n) of a dropout site. An element is dropped if its random word is at
// most last_dropped.
struct DropoutSpan {
  uint64_t first;
  uint64_t key;
  uint32_t last_dropped;
  float scale;
};

struct ActKernels {
  void (*forward)(void* out, const void* x, int64_t n);
  void (*backward)(void* dx, const void* dout, const void* x, int64_t n);
  void (*gated_forward)(void* out, const void* x, const void* gate, int64_t n);
  void (*gated_backward)(void* dx, void* dgate, const void* dout, const void* x, const void* gate, int64_t n);
};

// Kernels for ops whose rows all have the same dtype.
struct OneTypeKernels {
  ActKernels gelu_tanh, gelu, relu, relu2, silu;
  // Applies RoPE to one token. All heads use the same cos and sin [head_dim/2]; sin is multiplied by `sign`.
  void (*rope)(void* x, int64_t n_head, int64_t head_dim, const float* cos, const float* sin, float sign,
               bool interleaved);
  // Normalizes one head in place and returns rstd.
  float (*qk_norm)(void* x, int64_t n, double eps);
  void (*qk_norm_backward)(void* dx, const void* y, int64_t n, float rstd);
};

struct RowKernels {
  OneTypeKernels f32, bf16, f16;
  // Computes out = a + b. a and b have the same dtype, or a is fp32 and b has any dtype.
  void (*add)(float* out, const void* a, Stored a_type, const void* b, Stored b_type, int64_t n);
  void (*convert)(void* out, Stored out_type, const void* x, Stored x_type, int64_t n);
  // Quantizes a group of n elements to int8 and returns the scale max|x| / 127. If the group contains a NaN
  // or an infinity, returns NaN and sets `out` to zero.
  float (*quantize)(int8_t* out, const void* x, Stored x_type, int64_t n);
  // Applies dropout. x must be fp32 or have the dtype of `out`.
  void (*dropout)(void* out, Stored out_type, const void* x, Stored x_type, int64_t n,
                  const DropoutSpan& span);
  void (*norm)(const NormRow& row);
  void (*norm_backward)(const NormBackwardRow& row);
  // Computes out[i] += sum over b of partials[b * stride + i]. The sum is computed in double, in order of b.
  void (*add_partials)(float* out, const float* partials, int64_t blocks, int64_t stride, int64_t n);
  void (*softcap)(float* x, int64_t n, double cap);
  double (*cross_entropy)(const CrossEntropyRow& row);  // returns the loss
  void (*clamp)(float* x, int64_t n, float limit);
  double (*sum_squares)(const float* x, int64_t n);
  void (*adamw)(float* param, const float* grad, float* m, float* v, int64_t n, const AdamWStep& step);
};

const RowKernels& avx2_row_kernels() noexcept;
const RowKernels& avx512_row_kernels() noexcept;

}  // namespace gpt
