#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <vector>

namespace gpt {

// Finds the items of a vector, which keep their order, by name. name(item) is a string or a view of one.
template <class T, class Name>
std::vector<uint32_t> sorted_index(const std::vector<T>& items, Name name) {
  std::vector<uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return name(items[a]) < name(items[b]); });
  return order;
}

// The item of that name, or nullptr. order: what sorted_index gave.
template <class T, class Name>
const T* find_sorted(const std::vector<T>& items, const std::vector<uint32_t>& order, std::string_view wanted,
                     Name name) {
  const auto at = std::lower_bound(order.begin(), order.end(), wanted,
                                   [&](uint32_t i, std::string_view n) { return name(items[i]) < n; });
  return at != order.end() && name(items[*at]) == wanted ? &items[*at] : nullptr;
}

// An item whose name another one has too, or nullptr.
template <class T, class Name>
const T* find_duplicate(const std::vector<T>& items, const std::vector<uint32_t>& order, Name name) {
  for (size_t i = 1; i < order.size(); ++i) {
    if (name(items[order[i - 1]]) == name(items[order[i]])) return &items[order[i]];
  }
  return nullptr;
}

}  // namespace gpt
