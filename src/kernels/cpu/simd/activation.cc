#include "kernels/cpu/simd/row_sets.h"

namespace gpt::GPT_SIMD_NAMESPACE {
namespace {

// The value and the derivative of an activation function. The compiler removes the computation of a result
// that the caller does not use.
struct ValueSlope {
  Vec value;
  Vec slope;
};

// Uses x/2 (1 + tanh u) = x sigmoid(2u) with 2u = 2 sqrt(2/pi) (x + 0.044715 x^3), which has no cancellation
// for x < 0.
struct GeluTanh {
  GPT_INLINE ValueSlope at(Vec x) {
    constexpr float kScale = 1.5957691216f;  // 2 sqrt(2/pi)
    constexpr float kCubic = 0.044715f;
    const Vec z = x * x;
    const Sigmoid s = sigmoid(set1(kScale) * fma(set1(kCubic) * z, x, x));
    const Vec inner_slope = fma(set1(3 * kCubic * kScale), z, set1(kScale));
    return {x * s.value, fma(x * s.slope, inner_slope, s.value)};
  }
};

struct Gelu {
  GPT_INLINE ValueSlope at(Vec x) {
    const Normal n = normal(x);
    return {x * n.cdf, fma(x * set1(0.39894228f), n.gauss, n.cdf)};  // 1/sqrt(2 pi)
  }
};

struct Relu {
  GPT_INLINE ValueSlope at(Vec x) { return {max(zero(), x), select(less(zero(), x), set1(1.0f), zero())}; }
};

struct Relu2 {
  GPT_INLINE ValueSlope at(Vec x) {
    const Vec positive = max(zero(), x);
    return {positive * positive, select(less(zero(), x), x + x, zero())};
  }
};

struct Silu {
  GPT_INLINE ValueSlope at(Vec x) {
    const Sigmoid s = sigmoid(x);
    return {x * s.value, fma(x, s.slope, s.value)};
  }
};

// These functions are the entries of the kernel table. The void pointers point to rows of type E.
template <class F, class E>
void forward(void* out_row, const void* x_row, int64_t n) {
  auto* const out = static_cast<E*>(out_row);
  const auto* const x = static_cast<const E*>(x_row);
  for_vectors(n, [=](int64_t i, auto lanes) { store(out + i, F::at(load(x + i, lanes)).value, lanes); });
}

template <class F, class E>
void backward(void* dx_row, const void* dout_row, const void* x_row, int64_t n) {
  auto* const dx = static_cast<E*>(dx_row);
  const auto* const dout = static_cast<const E*>(dout_row);
  const auto* const x = static_cast<const E*>(x_row);
  for_vectors(n, [=](int64_t i, auto lanes) {
    store(dx + i, load(dout + i, lanes) * F::at(load(x + i, lanes)).slope, lanes);
  });
}

template <class F, class E>
void gated_forward(void* out_row, const void* x_row, const void* gate_row, int64_t n) {
  auto* const out = static_cast<E*>(out_row);
  const auto* const x = static_cast<const E*>(x_row);
  const auto* const gate = static_cast<const E*>(gate_row);
  for_vectors(n, [=](int64_t i, auto lanes) {
    store(out + i, F::at(load(gate + i, lanes)).value * load(x + i, lanes), lanes);
  });
}

template <class F, class E>
void gated_backward(void* dx_row, void* dgate_row, const void* dout_row, const void* x_row,
                    const void* gate_row, int64_t n) {
  auto* const dx = static_cast<E*>(dx_row);
  auto* const dgate = static_cast<E*>(dgate_row);
  const auto* const dout = static_cast<const E*>(dout_row);
  const auto* const x = static_cast<const E*>(x_row);
  const auto* const gate = static_cast<const E*>(gate_row);
  for_vectors(n, [=](int64_t i, auto lanes) {
    const ValueSlope f = F::at(load(gate + i, lanes));
    const Vec d = load(dout + i, lanes);
    store(dgate + i, d * f.slope * load(x + i, lanes), lanes);
    store(dx + i, d * f.value, lanes);
  });
}

template <class F, class E>
constexpr ActKernels kernels_of() {
  return {forward<F, E>, backward<F, E>, gated_forward<F, E>, gated_backward<F, E>};
}

template <class E>
void set_type(OneTypeKernels& k) {
  k.gelu_tanh = kernels_of<GeluTanh, E>();
  k.gelu = kernels_of<Gelu, E>();
  k.relu = kernels_of<Relu, E>();
  k.relu2 = kernels_of<Relu2, E>();
  k.silu = kernels_of<Silu, E>();
}

}  // namespace

void set_activation(RowKernels& k) noexcept {
  set_type<float>(k.f32);
  set_type<Bf16>(k.bf16);
  set_type<F16>(k.f16);
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
