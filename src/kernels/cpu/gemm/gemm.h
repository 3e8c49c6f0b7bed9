#pragma once

#include <optional>

#include "kernels/kernel_table.h"

// Matrix products for the linear ops (linear.cpp). Each function uses scratch memory of the context. The
// corresponding _scratch() function returns the size of this scratch memory for shapes up to the given one.

namespace gpt::gemm {

// Arguments of the product Y[m,n] = A[m,k] B[k,n]. After the product, the function adds the old Y (with
// `accumulate`), then the bias, and then applies the activation if `act` is set:
//   pre = Y, Y = act(Y)     in the forward pass
//   Y = Y * act'(pre)       in the backward pass
// Activations are fp32, bf16 or fp16. B is packed, or a plain matrix [n,k], or a plain matrix [k,n] with
// `b_transposed`. Plain matrices may be stored transposed. With `b_transposed` and fp32 compute, B may also
// consist of quantized rows.
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
  bool lower = false;  // Y is square, and only the elements on and below its diagonal are needed
};

// Computes Y = A B as described by GemmArgs. The bits of a row of Y depend only on that row of A, on B and on
// k.
void gemm(const ExecContext& ctx, Isa isa, const GemmArgs& p);
ScratchNeed gemm_scratch(int64_t m, int64_t n, int64_t k);

// Computes dw += dy^T x and dbias += column sums of dy, as defined in layer_ops.h. dw and dbias are fp32.
void weight_gradient(const ExecContext& ctx, Isa isa, const LinearBackwardWeightArgs& args);
ScratchNeed weight_gradient_scratch(int64_t rows, int64_t out, int64_t in);

// Computes y = x x^T, as defined in train_ops.h. y is fp32.
void syrk(const ExecContext& ctx, Isa isa, const SyrkArgs& args);
ScratchNeed syrk_scratch(Isa isa, int64_t rows, int64_t cols, DType compute);

// Fills a packed matrix for gemm(). The memory of the packed matrix must have packed_size() bytes.
void pack_weights(const ExecContext& ctx, Isa isa, const PackMatrixArgs& args);
int64_t packed_size(Isa isa, const PackedMatrix& m);

}  // namespace gpt::gemm
