#include "kernels/cpu/simd/row_sets.h"

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

constexpr float kInfinity = __builtin_inff();

// Computes the logit z = sharpness cap tanh(x / cap). Without a cap, z = sharpness x, or z = x if sharpness
// is 1.
struct Cap {
  bool on, bends;
  Vec top, reciprocal;    // `sharpness cap` and `1 / cap`; without a cap, `sharpness` and 0
  Vec reciprocal_of_top;  // z times this is the tanh; 0 without a cap, where dz/dx is sharpness

  Vec operator()(Vec x) const {
    if (!on) return x;
    return top * (bends ? tanh(x * reciprocal) : x);
  }
  // Computes z of one value, with the same bits as in a vector.
  float operator()(float x) const {
    float lanes[kLanes];
    store(lanes, (*this)(set1(x)));
    return lanes[0];
  }
};

Cap make_cap(double cap, double sharpness) {
  const bool bends = cap > 0;
  const double top = bends ? sharpness * cap : sharpness;
  return {bends || sharpness != 1, bends, set1(static_cast<float>(top)),
          set1(bends ? static_cast<float>(1 / cap) : 0.0f), set1(bends ? static_cast<float>(1 / top) : 0.0f)};
}

void softcap(float* x, int64_t n, double cap) {
  const Cap capped = make_cap(cap, 1);
  for_vectors(n, [=](int64_t i, auto lanes) { store(x + i, capped(load(x + i, lanes)), lanes); });
}

// Returns the largest value that is not NaN, or -inf if there is none.
float row_max(const float* x, int64_t n) {
  const Vec lowest = set1(-kInfinity);
  Vec top[4] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k)
      top[k] = max(load(x + i + k * kLanes), top[k]);
  }
  for (; i + kLanes <= n; i += kLanes)
    top[0] = max(load(x + i), top[0]);
  if (i < n) {
    const Mask lanes = first_lanes(n - i);
    top[1] = max(select(lanes, load(x + i, lanes), lowest), top[1]);
  }
  return reduce_max(max(max(top[0], top[1]), max(top[2], top[3])));
}

// Returns the sum of exp(z - shift). If `capped_out` is not null, stores z there. `capped_out` may alias x.
float sum_exp(const float* x, int64_t n, float shift, const Cap& capped, float* capped_out) {
  const Vec minus = set1(shift);
  Vec sum[4] = {zero(), zero(), zero(), zero()};
  const auto term = [&](int64_t i, auto lanes) {
    const Vec z = capped(load(x + i, lanes));
    if (capped_out != nullptr) store(capped_out + i, z, lanes);
    return exp(z - minus);
  };
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k)
      sum[k] += term(i + k * kLanes, AllLanes{});
  }
  for (; i + kLanes <= n; i += kLanes)
    sum[0] += term(i, AllLanes{});
  if (i < n) {
    const Mask lanes = first_lanes(n - i);
    sum[1] += select(lanes, term(i, lanes), zero());
  }
  return reduce_add(sum);
}

// The sum of exp(z - shift) over a row, where shift is close to the largest z.
struct SoftmaxSum {
  float shift;
  double sum;
};

// Computes the softmax denominator while reading the row from memory only once. The row is split into chunks
// that stay in L1 cache between the maximum and the sum. If a chunk raises the maximum, the sum so far is
// rescaled (Milakov & Gimelshein 2018).
SoftmaxSum softmax_sum(const float* x, int64_t n, const Cap& capped, float* capped_out) {
  constexpr int64_t kChunk = 2048;
  float top = -kInfinity;
  double sum = 0;
  // While all values are -inf, the shift is 0, which avoids inf - inf.
  const auto shift_of = [](float t) { return t == -kInfinity ? 0.0f : t; };
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t count = n - i < kChunk ? n - i : kChunk;
    const float chunk_top = capped(row_max(x + i, count));
    if (chunk_top > top) {
      if (sum != 0) sum *= __builtin_exp(double{shift_of(top)} - double{shift_of(chunk_top)});
      top = chunk_top;
    }
    sum += sum_exp(x + i, count, shift_of(top), capped, capped_out == nullptr ? nullptr : capped_out + i);
  }
  return {shift_of(top), sum};
}

// Writes the gradient of all logits as if none of them were the target; the caller then overwrites the
// gradient of the target. Elements are written in ascending order, because dlogits may start at the address
// of the logits. A narrower gradient then never overwrites a logit that has not been read yet. kept: the
// softcapped logits, or null.
template <class Out>
void write_gradient(const CrossEntropyRow& r, const Cap& capped, const float* kept, const SoftmaxSum& total,
                    Out* dx) {
  const Vec shift = set1(total.shift), one = set1(1.0f),
            factor = set1(static_cast<float>(r.scale * r.sharpness / total.sum));
  const float* const x = r.logits;
  if (!capped.on) {
    for_vectors(
        r.n, [=](int64_t i, auto lanes) { store(dx + i, exp(load(x + i, lanes) - shift) * factor, lanes); });
    return;
  }
  for_vectors(r.n, [=](int64_t i, auto lanes) {
    const Vec z = kept != nullptr ? load(kept + i, lanes) : capped(load(x + i, lanes));
    const Vec t = z * capped.reciprocal_of_top;
    store(dx + i, exp(z - shift) * factor * fnma(t, t, one), lanes);
  });
}

double cross_entropy(const CrossEntropyRow& r) {
  const Cap capped = make_cap(r.softcap, r.sharpness);
  const double z = capped(r.logits[r.target]);  // computed before the logit can be overwritten
  // tanh is the most expensive part, so the softcapped logits are kept if dlogits has room for them.
  float* kept = nullptr;
  if (capped.bends && (r.dlogits_type == Stored::f32 || r.dlogits == r.logits))
    kept = static_cast<float*>(r.dlogits);
  const SoftmaxSum total = softmax_sum(r.logits, r.n, capped, kept);
  const double loss = __builtin_log(total.sum) + (total.shift - z);
  if (r.dlogits == nullptr) return loss;
  const double t = capped.bends ? z / (r.sharpness * r.softcap) : 0;
  const double probability = __builtin_exp(z - double{total.shift}) / total.sum;
  const auto at_target = static_cast<float>(r.scale * r.sharpness * (probability - 1) * (1 - t * t));
  with_float_type(r.dlogits_type, r.dlogits, [&](auto* dx) {
    write_gradient(r, capped, kept, total, dx);
    store(dx + r.target, set1(at_target), first_lanes(1));
  });
  return loss;
}

}  // namespace

void set_loss(RowKernels& k) noexcept {
  k.softcap = softcap;
  k.cross_entropy = cross_entropy;
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
