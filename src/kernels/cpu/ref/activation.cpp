#include "kernels/cpu/ref/activation.h"

#include <cmath>

#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {
namespace {

constexpr double kSqrt2OverPi = 0.79788456080286535588;
constexpr double kSqrt1Over2 = 0.70710678118654752440;
constexpr double kGeluCubic = 0.044715;

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double gaussian_cdf(double x) {
  return 0.5 * std::erfc(-x * kSqrt1Over2);
}

}  // namespace

double act_value(Activation act, double x) {
  switch (act) {
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x)));
    case Activation::gelu:
      return x * gaussian_cdf(x);
    case Activation::relu:
      return x > 0 || std::isnan(x) ? x : 0;
    case Activation::relu2:
      return x > 0 || std::isnan(x) ? x * x : 0;
    case Activation::silu:
      return x * sigmoid(x);
  }
  return 0;
}

double act_slope(Activation act, double x) {
  switch (act) {
    case Activation::gelu_tanh: {
      const double t = std::tanh(kSqrt2OverPi * (x + kGeluCubic * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kSqrt2OverPi * (1 + 3 * kGeluCubic * x * x);
    }
    case Activation::gelu:
      return gaussian_cdf(x) + x * 0.5 * kSqrt2OverPi * std::exp(-0.5 * x * x);
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::relu2:
      return x > 0 ? 2 * x : 0;
    case Activation::silu:
      return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
  }
  return 0;
}

void act_forward(const ExecContext& ctx, const ActArgs& a) noexcept {
  for_rows(ctx, a.x.rows(), [&](int64_t n) {
    for (int64_t f = 0; f < a.x.cols(); ++f) {
      const double x = get(a.x, n, f);
      set(a.out, n, f, a.gate ? act_value(a.act, get(a.gate, n, f)) * x : act_value(a.act, x));
    }
  });
}

void act_backward(const ExecContext& ctx, const ActBackwardArgs& a) noexcept {
  for_rows(ctx, a.x.rows(), [&](int64_t n) {
    for (int64_t f = 0; f < a.x.cols(); ++f) {
      const double x = get(a.x, n, f), d = get(a.dout, n, f);
      if (a.gate) {
        const double gate = get(a.gate, n, f);
        set(a.dgate, n, f, d * act_slope(a.act, gate) * x);
        set(a.dx, n, f, d * act_value(a.act, gate));
      } else {
        set(a.dx, n, f, d * act_slope(a.act, x));
      }
    }
  });
}

}  // namespace gpt::ref
