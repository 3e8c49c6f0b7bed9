#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <vector>

namespace gpt {

// The result type of `of` for an element of a range. `of` is a function or a pointer to a member.
template <class Range, class Of>
using Image = std::decay_t<std::invoke_result_t<Of&, decltype(*std::begin(std::declval<const Range&>()))>>;

// Applies `of` to all elements and returns the results in order.
template <class Range, class Of>
std::vector<Image<Range, Of>> transformed(const Range& range, Of of) {
  std::vector<Image<Range, Of>> out;
  if constexpr (requires { std::size(range); }) out.reserve(std::size(range));
  for (const auto& x : range)
    out.push_back(std::invoke(of, x));
  return out;
}

// Applies `of` to the numbers 0 to n - 1 and returns the results in order.
template <class Of>
std::vector<std::decay_t<std::invoke_result_t<Of&, int64_t>>> transformed_indices(int64_t n, Of of) {
  std::vector<std::decay_t<std::invoke_result_t<Of&, int64_t>>> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(of(i));
  return out;
}

// Returns the sum of `of` over all elements, added from first to last. Strings are concatenated.
template <class Range, class Of = std::identity>
Image<Range, Of> sum_of(const Range& range, Of of = {}) {
  Image<Range, Of> sum{};
  for (const auto& x : range)
    sum += std::invoke(of, x);
  return sum;
}

// Returns a pointer to the first element for which `of` equals `value`, or null if there is none.
template <class Range, class Of, class Value>
auto find_by(Range& range, Of of, const Value& value) -> decltype(&*std::begin(range)) {
  for (auto& x : range) {
    if (std::invoke(of, x) == value) return &x;
  }
  return nullptr;
}

}  // namespace gpt
