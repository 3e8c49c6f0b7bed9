#include "kernels/cpu/simd/row_sets.h"

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

// Rotates the pairs (i, i + half).
template <class E>
void rotate_halves(E* x, int64_t half, const float* cos, const float* sin, Vec sign) {
  E* const upper = x + half;
  for_vectors(half, [=](int64_t i, auto lanes) {
    const Vec a = load(x + i, lanes), b = load(upper + i, lanes);
    const Vec c = load(cos + i, lanes), s = sign * load(sin + i, lanes);
    store(x + i, fnma(b, s, a * c), lanes);
    store(upper + i, fma(a, s, b * c), lanes);
  });
}

// Rotates the pairs (2i, 2i+1). Every lane becomes lane * cos + partner lane * sin, where sin is negated in
// even lanes.
template <class E>
void rotate_pairs(E* x, int64_t half, const float* cos, const float* sin, Vec alternating_sign) {
  for_vectors(2 * half, [=](int64_t i, auto lanes) {
    const int64_t left = half - i / 2;
    const int64_t pairs = left < kLanes / 2 ? left : kLanes / 2;
    const Vec v = load(x + i, lanes);
    const Vec c = load_twice(cos + i / 2, pairs), s = load_twice(sin + i / 2, pairs) * alternating_sign;
    store(x + i, fma(swap_pairs(v), s, v * c), lanes);
  });
}

template <class E>
void rope(void* row, int64_t n_head, int64_t head_dim, const float* cos, const float* sin, float sign,
          bool interleaved) {
  auto* const x = static_cast<E*>(row);
  float signs[kLanes];
  for (int i = 0; i < kLanes; ++i)
    signs[i] = i % 2 == 0 ? -sign : sign;
  const Vec alternating = load(signs);
  for (int64_t h = 0; h < n_head; ++h) {
    if (interleaved) {
      rotate_pairs(x + h * head_dim, head_dim / 2, cos, sin, alternating);
    } else {
      rotate_halves(x + h * head_dim, head_dim / 2, cos, sin, set1(sign));
    }
  }
}

}  // namespace

void set_rope(RowKernels& k) noexcept {
  k.f32.rope = rope<float>;
  k.bf16.rope = rope<Bf16>;
  k.f16.rope = rope<F16>;
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
