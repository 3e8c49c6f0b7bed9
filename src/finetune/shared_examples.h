#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace gpt {

// Returns a line such as "note: the training data has 12 of 40 held-out examples too, ..." if at least a
// tenth of the held-out examples are shared. Otherwise returns "".
std::string note_shared_examples(int64_t shared, int64_t held_out);

// Counts the held-out examples whose token ids also occur in the training data, and calls the function above
// with this count.
template <class Examples, class IdsOf>
std::string note_shared_examples(const Examples& train, const Examples& held_out, IdsOf ids_of) {
  std::set<std::vector<int32_t>> known;
  for (const auto& example : train)
    known.insert(ids_of(example));
  const auto is_known = [&](const auto& example) { return known.contains(ids_of(example)); };
  return note_shared_examples(std::ranges::count_if(held_out, is_known), std::ssize(held_out));
}

}  // namespace gpt
