#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpt {

// Returns `"; did you mean X?"` with the candidate closest to `word` by edit distance, or "" if none is
// close. Ignores case and the leading dashes of flags.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace gpt
