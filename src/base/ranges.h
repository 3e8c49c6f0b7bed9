#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <vector>

namespace gpt {

// What `of`, a function or the address of a member, makes of every element of a range.
template <class Range, class Of>
using Image = std::decay_t<std::invoke_result_t<Of&, decltype(*std::begin(std::declval<const Range&>()))>>;

// The images of all elements, in their order.
template <class Range, class Of>
std::vector<Image<Range, Of>> transformed(const Range& range, Of of) {
  std::vector<Image<Range, Of>> out;
  if constexpr (requires { std::size(range); }) out.reserve(std::size(range));
  for (const auto& x : range)
    out.push_back(std::invoke(of, x));
  return out;
}

// The same for the numbers 0 to n - 1.
template <class Of>
std::vector<std::decay_t<std::invoke_result_t<Of&, int64_t>>> transformed_indices(int64_t n, Of of) {
  std::vector<std::decay_t<std::invoke_result_t<Of&, int64_t>>> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(of(i));
  return out;
}

// Their sum, from the first on; texts one behind the other.
template <class Range, class Of = std::identity>
Image<Range, Of> sum_of(const Range& range, Of of = {}) {
  Image<Range, Of> sum{};
  for (const auto& x : range)
    sum += std::invoke(of, x);
  return sum;
}

// The first element whose image is `value`; null where there is none.
template <class Range, class Of, class Value>
auto find_by(Range& range, Of of, const Value& value) -> decltype(&*std::begin(range)) {
  for (auto& x : range) {
    if (std::invoke(of, x) == value) return &x;
  }
  return nullptr;
}

}  // namespace gpt
