#pragma once

#include "kernels/cpu/simd/vec.h"
#include "tensor/dtype.h"

// Quantizes activations to blocks of 32 int8 values (kernels/quant.h), and loads and stores vectors of any
// floating-point dtype. This header is only included by sources that are compiled once for each instruction
// set.

namespace gpt::quant {
namespace {

using namespace GPT_SIMD_NAMESPACE;  // NOLINT(google-build-using-namespace): used by the whole file

// Loads a value from an address that may be unaligned.
template <class T>
inline T load_as(const void* p) {
  T x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}

inline int size_of(DType dtype) {
  return dtype == DType::f32 ? 4 : 2;
}
inline Vec load_float(const uint8_t* p, DType dtype) {
  if (dtype == DType::bf16) return load(reinterpret_cast<const Bf16*>(p));
  if (dtype == DType::f16) return load(reinterpret_cast<const F16*>(p));
  return load(reinterpret_cast<const float*>(p));
}
inline void store_float(uint8_t* p, DType dtype, Vec v) {
  if (dtype == DType::bf16) return store_halves(p, narrow_bf16_keep_subnormals(v));
  if (dtype == DType::f16) return store(reinterpret_cast<F16*>(p), v);
  store(reinterpret_cast<float*>(p), v);
}

constexpr float kLeastScale = 0x1p-126f;  // the smallest normal float

struct QuantizedBlock {
  float d;
  int32_t half_sum[2];  // sums of the first 16 and of the last 16 values

  int32_t sum() const { return half_sum[0] + half_sum[1]; }
};

// Quantizes 32 activations. Calls store(i, q) for every vector q, which holds values i to i + kLanes - 1.
template <class Store>
inline QuantizedBlock quantize_block(const uint8_t* x, DType dtype, Store store) {
  constexpr int kVecs = 32 / kLanes;
  Vec v[kVecs];
  IVec largest = set1_i(0);
  GPT_UNROLL
  for (int i = 0; i < kVecs; ++i) {
    v[i] = load_float(x + i * kLanes * size_of(dtype), dtype);
    largest = max_i(largest, bits_of(abs(v[i])));
  }
  const float scale = __builtin_bit_cast(float, reduce_max(largest)) / 127;
  const bool finite = scale < __builtin_inff();
  const bool normal = finite && scale >= kLeastScale;
  const Vec inverse = set1(normal ? 1 / scale : 0.0f);
  QuantizedBlock block{normal ? scale : finite ? 0.0f : __builtin_nanf(""), {0, 0}};
  GPT_UNROLL
  for (int i = 0; i < kVecs; ++i) {
    const IVec q = finite ? to_int(v[i] * inverse) : set1_i(0);
    block.half_sum[i * 2 / kVecs] += reduce_add(q);
    store(i * kLanes, q);
  }
  return block;
}

}  // namespace
}  // namespace gpt::quant
