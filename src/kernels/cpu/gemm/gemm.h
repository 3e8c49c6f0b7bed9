#pragma once

#include <optional>

#include "kernels/kernel_table.h"

// Matrix products of the linear ops (linear.cpp). Each uses scratch memory of the context; its _scratch()
// returns the size for shapes up to the given one.

namespace gpt::gemm {

// Y[m,n] = A[m,k] B[k,n], then in this order: (+ Y with accumulate) (+ bias), and either
//   pre = Y, Y = act(Y)     in the forward pass, or
//   Y = Y * act'(pre)       in the backward pass.
// Activations are fp32, bf16 or fp16. B is packed, or a plain matrix [n,k], or [k,n] with `b_transposed`.
// Plain matrices may be stored transposed. With `b_transposed` and fp32 compute, B may also be quantized
// rows.
struct GemmArgs {
  DType compute;
  TensorView y, a;
  const PackedMatrix* packed = nullptr;
  TensorView b = {};
  bool b_transposed = false;
  const float* bias = nullptr;
  bool accumulate = false;
  std::optional<Activation> act = {};
  bool backward = false;
  TensorView pre = {};
  bool lower = false;  // Y is square; only elements on and below its diagonal are needed
};

// The bits of a row of Y depend only on that row of A, on B and on k.
void gemm(const ExecContext& ctx, Isa isa, const GemmArgs& p);
ScratchNeed gemm_scratch(int64_t m, int64_t n, int64_t k);

// dw += dy^T x and dbias += column sums of dy, as defined in layer_ops.h. dw and dbias are fp32.
void weight_gradient(const ExecContext& ctx, Isa isa, const LinearBackwardWeightArgs& args);
ScratchNeed weight_gradient_scratch(int64_t rows, int64_t out, int64_t in);

// y = x x^T, as defined in train_ops.h. y is fp32.
void syrk(const ExecContext& ctx, Isa isa, const SyrkArgs& args);
ScratchNeed syrk_scratch(Isa isa, int64_t rows, int64_t cols, DType compute);

// Fills a packed matrix for gemm(). Its memory must have packed_size() bytes.
void pack_weights(const ExecContext& ctx, Isa isa, const PackMatrixArgs& args);
int64_t packed_size(Isa isa, const PackedMatrix& m);

}  // namespace gpt::gemm
