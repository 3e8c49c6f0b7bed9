#include "kernels/cpu/simd/row_sets.h"

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

template <class A, class B>
void add_typed(float* out, const A* a, const B* b, int64_t n) {
  for_vectors(n,
              [=](int64_t i, auto lanes) { store(out + i, load(a + i, lanes) + load(b + i, lanes), lanes); });
}

void add(float* out, const void* a, Stored a_type, const void* b, Stored b_type, int64_t n) {
  with_float_type(b_type, b, [&]<class B>(const B* typed) {
    if (a_type == b_type) {
      add_typed(out, static_cast<const B*>(a), typed, n);
    } else {
      add_typed(out, static_cast<const float*>(a), typed, n);
    }
  });
}

void convert(void* out_row, Stored out_type, const void* x_row, Stored x_type, int64_t n) {
  with_float_type(out_type, out_row, [=](auto* out) {
    with_float_type(x_type, x_row, [=](const auto* x) {
      for_vectors(n, [=](int64_t i, auto lanes) { store(out + i, load(x + i, lanes), lanes); });
    });
  });
}

// Returns the largest |x|, or NaN if any x is NaN or infinite.
template <class E>
float largest(const E* x, int64_t n) {
  Vec top = zero(), odd = zero();
  for_vectors(n, [&](int64_t i, auto lanes) {
    const Vec v = load(x + i, lanes);
    top = max(abs(v), top);
    odd += v - v;  // adds zero, or NaN if x is not finite
  });
  return reduce_max(top) + reduce_add(odd);
}

float quantize(int8_t* out, const void* x_row, Stored x_type, int64_t n) {
  float scale = 0;
  with_float_type(x_type, x_row, [&](const auto* x) {
    scale = largest(x, n) / 127;
    if (!(scale > 0)) {
      __builtin_memset(out, 0, static_cast<size_t>(n));
      return;
    }
    // A subnormal scale may be so inaccurate that the quotient is out of range, so the quotient is clamped.
    const Vec divisor = set1(scale), low = set1(-127.0f), high = set1(127.0f);
    for_vectors(n, [=](int64_t i, auto lanes) {
      store(out + i, min(high, max(low, load(x + i, lanes) / divisor)), lanes);
    });
  });
  return scale;
}

void clamp(float* x, int64_t n, float limit) {
  const Vec high = set1(limit), low = set1(-limit);
  // The bounds are the first operands, because min and max return their second operand if x is NaN.
  for_vectors(n,
              [=](int64_t i, auto lanes) { store(x + i, min(high, max(low, load(x + i, lanes))), lanes); });
}

double sum_squares(const float* x, int64_t n) {
  VecD low[4] = {zero_d(), zero_d(), zero_d(), zero_d()};
  VecD high[4] = {zero_d(), zero_d(), zero_d(), zero_d()};
  for_vectors_by_4(n, [&](int k, int64_t i, auto lanes) {
    const Vec v = load(x + i, lanes);
    low[k] = fma(low_d(v), low_d(v), low[k]);
    high[k] = fma(high_d(v), high_d(v), high[k]);
  });
  return reduce_add(((low[0] + high[0]) + (low[1] + high[1])) + ((low[2] + high[2]) + (low[3] + high[3])));
}

void adamw(float* param, const float* grad, float* m, float* v, int64_t n, const AdamWStep& step) {
  const Vec grad_scale = set1(step.grad_scale);
  const Vec rate1 = set1(step.one_minus_beta1), rate2 = set1(step.one_minus_beta2);
  const Vec step_size = set1(step.step_size), root_scale = set1(step.root_scale);
  const Vec eps = set1(step.eps), decay = set1(step.decay);
  for_vectors(n, [=](int64_t i, auto lanes) {
    const Vec g = grad_scale * load(grad + i, lanes);
    // With beta rounded to float, beta v + (1-beta) g^2 would have an error of 1e-5 in the long run (beta =
    // 0.999). The form v + (1-beta) (g^2 - v) avoids this error.
    const Vec old_m = load(m + i, lanes), old_v = load(v + i, lanes);
    const Vec new_m = fma(rate1, g - old_m, old_m);
    const Vec new_v = fma(rate2, fma(g, g, zero() - old_v), old_v);
    store(m + i, new_m, lanes);
    store(v + i, new_v, lanes);
    const Vec update = new_m / fma(sqrt(new_v), root_scale, eps);
    const Vec p = load(param + i, lanes);
    store(param + i, fnma(step_size, update, fnma(decay, p, p)), lanes);
  });
}

}  // namespace

void set_elementwise(RowKernels& k) noexcept {
  k.add = add;
  k.convert = convert;
  k.quantize = quantize;
  k.clamp = clamp;
  k.sum_squares = sum_squares;
  k.adamw = adamw;
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
