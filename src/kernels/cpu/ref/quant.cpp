#include "kernels/cpu/ref/quant.h"

#include <cfloat>
#include <cmath>
#include <limits>

#include "kernels/cpu/quant/kernels.h"
#include "kernels/cpu/quant/source_rows.h"
#include "kernels/cpu/ref/activation.h"
#include "kernels/quant.h"

namespace gpt::ref {
namespace {

// A quantized block of 32 activations.
struct QuantizedBlock {
  float d;
  int8_t q[kQuantBlock];
};

QuantizedBlock quantize_activations(const float* x) {
  QuantizedBlock block{};
  float largest = 0;
  bool finite = true;
  for (int64_t j = 0; j < kQuantBlock; ++j) {
    largest = std::max(largest, std::abs(x[j]));
    finite = finite && std::isfinite(x[j]);
  }
  if (!finite) return {.d = std::numeric_limits<float>::quiet_NaN(), .q = {}};
  block.d = largest / 127;
  if (block.d < FLT_MIN) return {};
  const float inverse = 1 / block.d;
  for (int64_t j = 0; j < kQuantBlock; ++j)
    block.q[j] = static_cast<int8_t>(std::nearbyint(x[j] * inverse));
  return block;
}

// Quantizes row n of the activations.
template <class T>
void quantize_activations(const TensorView& from, int64_t n, int64_t blocks, QuantizedBlock* x) {
  for (int64_t b = 0; b < blocks; ++b) {
    float values[kQuantBlock];
    for (int64_t j = 0; j < kQuantBlock; ++j)
      values[j] = static_cast<float>(get<T>(from, n, b * kQuantBlock + j));
    x[b] = quantize_activations(values);
  }
}

// The product of a block of weights with a block of activations: the scale of the weights and the exact
// integer dot product.
struct BlockProduct {
  float d;
  int32_t sum = 0;
};
BlockProduct multiply(const BlockQ8& w, const QuantizedBlock& x) {
  BlockProduct p{to_float(w.d)};
  for (int64_t j = 0; j < kQuantBlock; ++j)
    p.sum += w.q[j] * x.q[j];
  return p;
}
BlockProduct multiply(const BlockQ4& w, const QuantizedBlock& x) {
  BlockProduct p{to_float(w.d)};
  for (int64_t j = 0; j < kQuantBlock / 2; ++j)
    p.sum += ((w.q[j] & 15) - 8) * x.q[j] + ((w.q[j] >> 4) - 8) * x.q[j + kQuantBlock / 2];
  return p;
}

template <class T, class Block>
T dot(const Block* w, const QuantizedBlock* x, int64_t blocks) {
  T sum = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const BlockProduct p = multiply(w[b], x[b]);
    sum = std::fma(T{p.d} * T{x[b].d}, static_cast<T>(p.sum), sum);
  }
  return sum;
}

template <class T, class Block>
void forward(const ExecContext& ctx, const LinearArgs& a) {
  const int64_t blocks = a.packed.in / kQuantBlock;
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(quantized_scratch(a.x.rows(), a.packed.in)));
  for_rows(ctx, a.x.rows(), [&](int64_t n) {
    QuantizedBlock* x = ctx.scratch.all<QuantizedBlock>() + n * blocks;
    quantize_activations<T>(a.x, n, blocks, x);
    for (int64_t o = 0; o < a.packed.out; ++o) {
      T sum = dot<T>(static_cast<const Block*>(a.packed.data) + o * blocks, x, blocks);
      if (a.bias) sum += a.bias.as<T>()[o];
      if (a.act && a.pre) set(a.pre, n, o, sum);
      set(a.y, n, o, a.act ? act_value(*a.act, sum) : sum);
    }
  });
}

// The exact sum f[b] defined in kernels/quant.h, and the sum of the quantized activations of block b.
struct ExactSums {
  int32_t product = 0, x = 0;
};
ExactSums multiply(const UnpackedBlock& w, const QuantizedBlock& x) {
  ExactSums sums;
  for (int64_t j = 0; j < kQuantBlock; ++j) {
    sums.product += w.sub[j / 16] * w.q[j] * x.q[j];
    sums.x += x.q[j];
  }
  return sums;
}

// Returns the dot product of a quantized row with the activations, using the partial sums defined in
// kernels/quant.h.
template <class T>
T dot_rows(DType dtype, const void* row, const QuantizedBlock* x, int64_t blocks) {
  constexpr int64_t kPartialSums = 16;
  T partial[kPartialSums] = {};
  for (int64_t b = 0; b < blocks; ++b) {
    UnpackedBlock w;
    unpack_block(dtype, row, b, w);
    const ExactSums sums = multiply(w, x[b]);
    T& a = partial[b % kPartialSums];
    a = std::fma(T{w.d} * T{x[b].d}, static_cast<T>(sums.product), a);
    if (has_minimum(dtype)) a = std::fma(T{w.m}, T{x[b].d} * static_cast<T>(sums.x), a);
  }
  T sum = partial[0];
  for (int64_t c = 1; c < kPartialSums; ++c)
    sum += partial[c];
  return sum;
}

template <class T>
void forward_rows(const ExecContext& ctx, const LinearArgs& a) {
  const int64_t blocks = a.w.cols() / kQuantBlock;
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(quantized_scratch(a.x.rows(), a.w.cols())));
  for_rows(ctx, a.x.rows(), [&](int64_t n) {
    QuantizedBlock* x = ctx.scratch.all<QuantizedBlock>() + n * blocks;
    quantize_activations<T>(a.x, n, blocks, x);
    for (int64_t o = 0; o < a.w.rows(); ++o) {
      T sum = dot_rows<T>(a.w.dtype, a.w.slice_rows(o, 1).data, x, blocks);
      if (a.bias) sum += a.bias.as<T>()[o];
      if (a.act && a.pre) set(a.pre, n, o, sum);
      set(a.y, n, o, a.act ? act_value(*a.act, sum) : sum);
    }
  });
}

template <class Block>
void pack(const ExecContext& ctx, const PackMatrixArgs& a) {
  const int64_t blocks = a.dst.in / kQuantBlock;
  for_rows(ctx, a.dst.out, [&](int64_t r) {
    const quant::SourceRow row = quant::source_row(a.parts, r);
    for (int64_t b = 0; b < blocks; ++b)
      static_cast<Block*>(a.dst.data)[r * blocks + b] = row.block<Block>(b);
  });
}

}  // namespace

ScratchNeed quantized_scratch(int64_t rows, int64_t in) {
  return {.shared = rows * (in / kQuantBlock) * static_cast<int64_t>(sizeof(QuantizedBlock))};
}

void quantized_linear_forward(const ExecContext& ctx, const LinearArgs& a) {
  dispatch(ctx, a.x.dtype, [&]<class T>(T) {
    a.packed.dtype == DType::q8_0 ? forward<T, BlockQ8>(ctx, a) : forward<T, BlockQ4>(ctx, a);
  });
}

void quantized_rows_forward(const ExecContext& ctx, const LinearArgs& a) {
  dispatch(ctx, a.x.dtype, [&]<class T>(T) { forward_rows<T>(ctx, a); });
}

void quantized_pack_matrix(const ExecContext& ctx, const PackMatrixArgs& a) {
  a.dst.dtype == DType::q8_0 ? pack<BlockQ8>(ctx, a) : pack<BlockQ4>(ctx, a);
}

}  // namespace gpt::ref
