#include "convert/value_check.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/printable.h"
#include "convert/gguf_export.h"
#include "kernels/quant.h"

namespace gpt {
namespace {

// The smallest values that become infinity when they are rounded to the dtype.
constexpr float kInfiniteInF16 = 65520, kInfiniteInBf16 = 0x1.ffp127f;
constexpr float kLargestF16 = 65504;

bool is_finite(float x) {
  return std::isfinite(x);
}

// Returns a row after quantization and dequantization.
std::vector<float> stored_in_blocks(DType dtype, const std::vector<float>& x) {
  const auto n = std::ssize(x);
  std::vector<std::byte> row(static_cast<size_t>(row_bytes(dtype, n)));
  std::vector<float> stored(x.size());
  quantize_row(dtype, x.data(), n, row.data());
  dequantize_row(dtype, row.data(), n, stored.data());
  return stored;
}

// Returns the index of the first value that a quantized dtype makes infinite, or -1.
int64_t infinite_in_blocks(DType dtype, const std::vector<float>& x) {
  if (std::ranges::none_of(x, [](float value) { return std::abs(value) > kLargestF16; })) return -1;
  const std::vector<float> stored = stored_in_blocks(dtype, x);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::abs(x[i]) > kLargestF16 && !is_finite(stored[i])) return static_cast<int64_t>(i);
  }
  return -1;
}

// Returns the index of the first value of a row that becomes infinite in `dtype`, or -1.
int64_t infinite_in(DType dtype, const std::vector<float>& x) {
  if (is_quantized(dtype)) return infinite_in_blocks(dtype, x);
  if (dtype != DType::f16 && dtype != DType::bf16) return -1;
  const float limit = dtype == DType::f16 ? kInfiniteInF16 : kInfiniteInBf16;
  const auto found = std::ranges::find_if(x, [&](float value) { return std::abs(value) >= limit; });
  return found == x.end() ? -1 : found - x.begin();
}

float largest_of(const std::vector<float>& x) {
  float largest = 0;
  for (const float value : x)
    largest = std::max(largest, std::abs(value));
  return largest;
}

// Returns true if a row that is not all zeros becomes all zeros in `dtype`.
bool vanishes(DType dtype, const std::vector<float>& x) {
  constexpr float kHalfOfSmallestF16 = 0x1p-25f;
  const float largest = largest_of(x);
  if (dtype == DType::f16) return largest > 0 && largest <= kHalfOfSmallestF16;
  // Values above this limit do not vanish in any quantized dtype.
  constexpr float kSafe = 1e-3f;
  if (!is_quantized(dtype) || largest == 0 || largest > kSafe) return false;
  return largest_of(stored_in_blocks(dtype, x)) == 0;
}

// Returns the index of a parameter's element in its tensor of the file.
std::string index_of(const FilePlace& place, int64_t r, int64_t c) {
  if (place.file_shape.size() == 1) return fmt::format("[{}]", place.first_row + c);
  const int64_t row = place.first_row + r;
  return place.transposed ? fmt::format("[{}, {}]", c, row) : fmt::format("[{}, {}]", row, c);
}

}  // namespace

void check_values(const LoadedModel& loaded, int id, DType dtype) {
  const TensorView& view = loaded.model().weights[static_cast<size_t>(id)];
  const LoadedModel::Origin& origin = loaded.origins()[static_cast<size_t>(id)];
  const int64_t rows = view.rank == 2 ? view.rows() : 1, cols = view.size() / rows;
  const auto where = [&](int64_t r, int64_t c) {
    return fmt::format("{}: tensor {} at {}", loaded.paths()[0], printable(origin.tensor->name),
                       index_of(origin.place, r, c));
  };
  std::vector<float> x(static_cast<size_t>(cols)), largest;  // `largest` is the row with the largest value
  float largest_value = 0;
  const bool may_vanish = dtype == DType::f16 || is_quantized(dtype);
  for (int64_t r = 0; r < rows; ++r) {
    read_row(view, r, cols, x.data());
    if (const auto bad = std::ranges::find_if_not(x, is_finite); bad != x.end())
      fail("{}: expected a finite value, found {}{}; use an earlier checkpoint of this model",
           where(r, bad - x.begin()), std::isnan(*bad) ? "NaN" : "infinity",
           origin.tensor->dtype == DType::f64 ? " (as fp32)" : "");
    if (const int64_t c = infinite_in(dtype, x); c >= 0)
      fail("{}: the value {} is too large for {}; use `dtype` {}", where(r, c), x[static_cast<size_t>(c)],
           dtype_name(dtype), std::abs(x[static_cast<size_t>(c)]) < kInfiniteInBf16 ? "bf16" : "fp32");
    if (!may_vanish) continue;
    if (const float most = largest_of(x); most > largest_value) {
      largest_value = most;
      largest = x;
    }
  }
  if (vanishes(dtype, largest))
    fail("{}: tensor {}: all values, up to {}, are too small for {} and would be 0; use `dtype` bf16",
         loaded.paths()[0], printable(origin.tensor->name), largest_value, dtype_name(dtype));
}

}  // namespace gpt
