#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace gpt {

// Returns the length of the longest common prefix of two ranges.
template <class A, class B>
size_t common_prefix(const A& a, const B& b) {
  const auto first = std::begin(a);
  return static_cast<size_t>(std::mismatch(first, std::end(a), std::begin(b), std::end(b)).first - first);
}

}  // namespace gpt
