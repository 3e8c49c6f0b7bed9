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
      // `keep` is 1 for wavelengths that are short enough to stay unchanged, and 0 for wavelengths that are
      // stretched by the full factor.
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

// Converts a value to T for the table. If `dtype` is bf16, rounds the value to bf16 first.
template <class T>
T stored(double value, RopeDType dtype) {
  return dtype == RopeDType::bf16 ? static_cast<T>(to_float(to_bf16(static_cast<float>(value))))
                                  : static_cast<T>(value);
}

// Fills the rows with the values of consecutive positions, starting at position `first`.
template <class T>
void fill_as(const TensorView& cos, const TensorView& sin, const std::vector<double>& frequencies,
             RopeDType dtype, int64_t first) {
  const MappedView c(cos, Access::write), s(sin, Access::write);
  for (int64_t p = 0; p < cos.rows(); ++p) {
    for (int64_t i = 0; i < cos.cols(); ++i) {
      const double angle = static_cast<double>(first + p) * frequencies[static_cast<size_t>(i)];
      c->row<T>(p)[i] = stored<T>(std::cos(angle), dtype);
      s->row<T>(p)[i] = stored<T>(std::sin(angle), dtype);
    }
  }
}

void fill(const TensorView& cos, const TensorView& sin, const std::vector<double>& frequencies,
          RopeDType dtype, int64_t first) {
  cos.dtype == DType::f64 ? fill_as<double>(cos, sin, frequencies, dtype, first)
                          : fill_as<float>(cos, sin, frequencies, dtype, first);
}

}  // namespace

int64_t RopeTable::bytes(const RopeConfig& c, int64_t n_positions, DType dtype) {
  return 2 * checked_size(Shape{n_positions, c.head_dim / 2}, "rotary table") *
         static_cast<int64_t>(dtype_size(dtype));
}

void RopeTable::set_row(int64_t row, int64_t position) {
  fill(cos.slice_rows(row, 1), sin.slice_rows(row, 1), frequencies_, rope_dtype_, position);
}

RopeTable::RopeTable(const RopeConfig& c, int64_t n_positions, DType dtype, Device* device)
    : buffer_(static_cast<size_t>(bytes(c, n_positions, dtype)), "the rotary table", device),
      frequencies_(rope_frequencies(c)),
      rope_dtype_(c.dtype) {
  GPT_ASSERT(dtype == DType::f32 || dtype == DType::f64);
  const Shape shape{n_positions, c.head_dim / 2};
  cos = buffer_.view(0, dtype, shape);
  sin = buffer_.view(bytes(c, n_positions, dtype) / 2, dtype, shape);
  fill(cos, sin, frequencies_, rope_dtype_, 0);
}

}  // namespace gpt
