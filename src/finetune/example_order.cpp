#include "finetune/example_order.h"

#include <algorithm>
#include <cmath>

namespace gpt {
namespace {

// Fixed key, so that the selection does not depend on the seed of the run.
constexpr uint64_t kHeldOut = 0x6865'6c64;

}  // namespace

std::vector<int64_t> held_out(int64_t n, double share) {
  if (share <= 0 || n < 2) return {};
  const int64_t count = std::clamp<int64_t>(std::llround(share * static_cast<double>(n)), 1, n - 1);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * n / count, end = (i + 1) * n / count;
    out.push_back(begin + KeyedPermutation(end - begin, kHeldOut, static_cast<uint64_t>(i))(0));
  }
  return out;
}

}  // namespace gpt
