#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpt {

// `"; did you mean X?"` for the candidate closest to `word` by edit distance, or "" when none is close.
// Upper and lower case and the dashes of flags are no difference.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace gpt
