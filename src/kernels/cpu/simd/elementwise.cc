#include "kernels/cpu/simd/row_sets.h"

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

void add(float* out, const float* a, const float* b, int64_t n) {
  for_vectors(n,
              [=](int64_t i, auto lanes) { store(out + i, load(a + i, lanes) + load(b + i, lanes), lanes); });
}

void clamp(float* x, int64_t n, float limit) {
  const Vec high = set1(limit), low = set1(-limit);
  // The bounds come first: where x is NaN, min and max give their second operand.
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
    // beta v + (1-beta) g^2 with beta rounded to float would be off by 1e-5 in the long run (0.999); this is
    // not.
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
  k.clamp = clamp;
  k.sum_squares = sum_squares;
  k.adamw = adamw;
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
