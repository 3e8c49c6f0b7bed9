#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace gpt {

// "note: the training data has 12 of 40 held-out examples too, ...": for people, if that is a tenth of them
// or more; else "".
std::string note_shared_examples(int64_t shared, int64_t held_out);

// The same for examples that are equal where their ids are.
template <class Examples, class IdsOf>
std::string note_shared_examples(const Examples& train, const Examples& held_out, IdsOf ids_of) {
  std::set<std::vector<int32_t>> known;
  for (const auto& example : train)
    known.insert(ids_of(example));
  const auto is_known = [&](const auto& example) { return known.contains(ids_of(example)); };
  return note_shared_examples(std::ranges::count_if(held_out, is_known), std::ssize(held_out));
}

}  // namespace gpt
