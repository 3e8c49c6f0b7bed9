#include "model/rope_table.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/device.h"
#include "tensor/half.h"

namespace gpt {

std::vector<double> rope_frequencies(const RopeConfig& c) {
  constexpr double kTwoPi = 6.283185307179586476925;
  std::vector<double> frequencies;
  const RopeScaling& s = c.scaling;
  for (int64_t i = 0; i < c.head_dim / 2; ++i) {
    double f = std::pow(c.theta, -2.0 * static_cast<double>(i) / static_cast<double>(c.head_dim));
    if (s.type == RopeScaling::Type::linear) f /= s.factor;
    if (s.type == RopeScaling::Type::llama3) {
      // 1: wavelengths short enough to keep; 0: so long that they are stretched by the whole factor
      const double turns = static_cast<double>(s.original_n_ctx) * f / kTwoPi;
      const double keep =
          std::clamp((turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor), 0.0, 1.0);
      f *= keep + (1 - keep) / s.factor;
    }
    frequencies.push_back(f);
  }
  return frequencies;
}

namespace {

// As the table keeps it: T, or what bf16 has of it.
template <class T>
T stored(double value, RopeDType dtype) {
  return dtype == RopeDType::bf16 ? static_cast<T>(to_float(to_bf16(static_cast<float>(value))))
                                  : static_cast<T>(value);
}

template <class T>
void fill(const TensorView& cos, const TensorView& sin, const std::vector<double>& frequencies,
          RopeDType dtype) {
  const MappedView c(cos, Access::write), s(sin, Access::write);
  for (int64_t p = 0; p < cos.rows(); ++p) {
    for (int64_t i = 0; i < cos.cols(); ++i) {
      const double angle = static_cast<double>(p) * frequencies[static_cast<size_t>(i)];
      c->row<T>(p)[i] = stored<T>(std::cos(angle), dtype);
      s->row<T>(p)[i] = stored<T>(std::sin(angle), dtype);
    }
  }
}

}  // namespace

RopeTable::RopeTable(const RopeConfig& c, int64_t n_positions, DType dtype, Device* device) {
  GPT_ASSERT(dtype == DType::f32 || dtype == DType::f64);
  const int64_t half = c.head_dim / 2;
  const int64_t size = checked_size(Shape{n_positions, half}, "rotary table");
  buffer_ = Buffer(2 * static_cast<size_t>(size) * dtype_size(dtype), "the rotary table", device);
  const Shape shape{n_positions, half};
  cos = buffer_.view(0, dtype, shape);
  sin = buffer_.view(size * static_cast<int64_t>(dtype_size(dtype)), dtype, shape);
  const std::vector<double> frequencies = rope_frequencies(c);
  if (dtype == DType::f64) {
    fill<double>(cos, sin, frequencies, c.dtype);
  } else {
    fill<float>(cos, sin, frequencies, c.dtype);
  }
}

}  // namespace gpt
