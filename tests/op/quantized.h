#pragma once

#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "support/isas.h"

// What the tests of quantised products share.

namespace gpt {

struct ProductShape {
  int64_t rows, out, in;
};

inline std::vector<float> random_values(int64_t n, uint64_t seed) {
  RandomStream random(seed, RandomSite::test);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values)
    v = static_cast<float>(random.normal());
  return values;
}

// Memory of a floating type with `values` rounded to it.
struct Stored {
  std::vector<std::byte> bytes;
  TensorView view;

  Stored(DType dtype, int64_t rows, int64_t cols, const std::vector<float>& values)
      : bytes(static_cast<size_t>(rows * cols) * dtype_size(dtype)),
        view(make_view(bytes.data(), dtype, {rows, cols})) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::f32) view.as<float>()[i] = values[i];
      if (dtype == DType::bf16) view.as<bf16>()[i] = to_bf16(values[i]);
      if (dtype == DType::f16) view.as<f16>()[i] = to_f16(values[i]);
    }
  }
};

// The same number, or NaN both.
inline bool same(const TensorView& a, const TensorView& b) {
  for (int64_t i = 0; i < a.size(); ++i) {
    uint32_t x = 0, y = 0;
    float fx = 0, fy = 0;
    if (a.dtype == DType::f32) {
      fx = a.as<float>()[i], fy = b.as<float>()[i];
      std::memcpy(&x, &fx, 4), std::memcpy(&y, &fy, 4);
    } else {
      x = a.as<uint16_t>()[i], y = b.as<uint16_t>()[i];
      fx = a.dtype == DType::bf16 ? to_float(bf16{a.as<uint16_t>()[i]}) : to_float(f16{a.as<uint16_t>()[i]});
      fy = b.dtype == DType::bf16 ? to_float(bf16{b.as<uint16_t>()[i]}) : to_float(f16{b.as<uint16_t>()[i]});
    }
    if (x != y && !(std::isnan(fx) && std::isnan(fy))) return false;
  }
  return true;
}

}  // namespace gpt
