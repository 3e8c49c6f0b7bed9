#pragma once

#include <cstddef>
#include <string_view>

namespace gpt::test {

// Returns the number of non-overlapping occurrences of `part` in `text`. `part` must not be empty.
inline size_t count_of(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size()))
    ++n;
  return n;
}

}  // namespace gpt::test
