#include "trace/torch_random.h"

#include <cmath>

#include "base/ranges.h"

namespace gpt {
namespace {

constexpr size_t kSixteen = 16;
constexpr double kTwoPi = 6.283185307179586476925;

}  // namespace

float TorchRandom::uniform_float() {
  return static_cast<float>(engine_() & 0xffffffu) * 0x1p-24f;
}

double TorchRandom::uniform_double() {
  const uint64_t high = engine_();  // the first draw is the high half
  const uint64_t low = engine_();
  return static_cast<double>((high << 32 | low) & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
}

void TorchRandom::uniform(std::span<float> out, float low, float high) {
  for (float& x : out)
    x = uniform_float() * (high - low) + low;
}

// Converts 16 uniform numbers to normal numbers (Box and Muller 1958). The first eight numbers determine the
// radii, and the last eight numbers determine the angles.
void TorchRandom::fill_sixteen(std::span<float> out) {
  constexpr size_t kHalf = kSixteen / 2;
  for (size_t i = 0; i < kHalf; ++i) {
    const float radius = std::sqrt(-2 * std::log(1 - out[i]));
    const float angle = static_cast<float>(kTwoPi) * out[i + kHalf];
    out[i] = radius * std::cos(angle);
    out[i + kHalf] = radius * std::sin(angle);
  }
}

double TorchRandom::pair_normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double angle = kTwoPi * uniform_double();
  const double radius = std::sqrt(-2 * std::log1p(-uniform_double()));
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

void TorchRandom::normal(std::span<float> out) {
  if (out.size() < kSixteen) {
    for (float& x : out)
      x = static_cast<float>(pair_normal());
    return;
  }
  uniform(out, 0, 1);
  const size_t rest = out.size() % kSixteen;
  for (size_t at = 0; at + kSixteen <= out.size(); at += kSixteen)
    fill_sixteen(out.subspan(at, kSixteen));
  if (rest == 0) return;
  // Like PyTorch, generate the last 16 values again, even if some of them belong to the previous group.
  const std::span<float> last = out.last(kSixteen);
  uniform(last, 0, 1);
  fill_sixteen(last);
}

std::vector<bool> TorchRandom::bernoulli(int64_t count, double keep) {
  return transformed_indices(count, [&](int64_t) { return uniform_double() < keep; });
}

}  // namespace gpt
