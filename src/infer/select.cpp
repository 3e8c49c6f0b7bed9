#include "infer/select.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/error.h"

namespace gpt {
namespace {

// Up to here a heap wins: of V values in random order only about k ln(V / k) ever enter it, so nearly
// every value costs one comparison. Beyond, the expected work nears that of a partition.
constexpr int64_t kHeapLimit = 1024;

}  // namespace

float kth_largest(std::span<const float> values, int64_t k, std::vector<float>& scratch) {
  GPT_ASSERT(k >= 1 && k <= std::ssize(values));
  if (k > kHeapLimit) {
    scratch.assign(values.begin(), values.end());
    const auto kth = scratch.begin() + (k - 1);
    std::nth_element(scratch.begin(), kth, scratch.end(), std::greater<>());
    return *kth;
  }
  scratch.assign(values.begin(), values.begin() + k);
  std::make_heap(scratch.begin(), scratch.end(), std::greater<>());
  for (const float value : values.subspan(static_cast<size_t>(k))) {
    if (value <= scratch.front()) continue;
    std::pop_heap(scratch.begin(), scratch.end(), std::greater<>());
    scratch.back() = value;
    std::push_heap(scratch.begin(), scratch.end(), std::greater<>());
  }
  return scratch.front();
}

std::vector<int32_t> top_ids(std::span<const float> values, int64_t k, std::vector<float>& scratch) {
  k = std::min(k, std::ssize(values));
  std::vector<int32_t> ids;
  if (k <= 0) return ids;
  const float threshold = kth_largest(values, k, scratch);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= threshold) ids.push_back(static_cast<int32_t>(i));
  }
  // Ids are ascending here, so a stable sort leaves ties by lowest id.
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
  });
  ids.resize(static_cast<size_t>(k));
  return ids;
}

void check_finite(std::span<const float> logits) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  bool finite = true;
  for (const float x : logits)
    finite &= std::fabs(x) <= kLargest;  // false for NaN
  if (finite) return;
  const auto bad = std::find_if(logits.begin(), logits.end(), [](float x) { return !std::isfinite(x); });
  fail(
      "logits: expected finite numbers, found {} for id {}: the model's weights are damaged or overflow; "
      "check them with 'gpt verify'",
      *bad, bad - logits.begin());
}

}  // namespace gpt
