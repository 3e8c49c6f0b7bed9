#include "finetune/example_order.h"

#include <algorithm>
#include <cmath>

namespace gpt {

std::vector<int64_t> held_out(int64_t n, double share) {
  if (share <= 0 || n < 2) return {};
  const int64_t count = std::clamp<int64_t>(std::llround(share * static_cast<double>(n)), 1, n - 1);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back((2 * i + 1) * n / (2 * count));
  return out;
}

}  // namespace gpt
