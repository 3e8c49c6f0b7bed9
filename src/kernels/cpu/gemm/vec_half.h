#pragma once

#include "kernels/cpu/simd/vec.h"
#include "tensor/dtype.h"

// Vec from and to elements as they are stored. Internal to the units compiled once per instruction set.

namespace gpt::GPT_SIMD_NAMESPACE {

#if defined(GPT_SIMD_AVX512)
GPT_INLINE IVec bits_of(Vec v) {
  return _mm512_castps_si512(v);
}
GPT_INLINE Vec as_floats(IVec v) {
  return _mm512_castsi512_ps(v);
}
#else
GPT_INLINE IVec bits_of(Vec v) {
  return _mm256_castps_si256(v);
}
GPT_INLINE Vec as_floats(IVec v) {
  return _mm256_castsi256_ps(v);
}
#endif

// The first n elements from p, and zeros.
template <class E>
GPT_INLINE Vec load_n(const E* p, int64_t n) {
  return load(p, first_lanes(n));
}
template <class E>
GPT_INLINE void store_n(E* p, Vec v, int64_t n) {
  store(p, v, first_lanes(n));
}

// Calls body with a null pointer to the element type that `type` names.
template <class Body>
GPT_INLINE void for_type(DType type, Body body) {
  if (type == DType::bf16) {
    body(static_cast<Bf16*>(nullptr));
  } else if (type == DType::f16) {
    body(static_cast<F16*>(nullptr));
  } else {
    body(static_cast<float*>(nullptr));
  }
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
