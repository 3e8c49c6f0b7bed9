#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace gpt {

// What a tokenizer is made of, as a table or as JSON.
std::string describe_tokenizer(const Tokenizer& tokenizer, bool json);

// How a text is cut into pieces and these are merged, for people (coloured on a terminal) or as JSON. Throws
// Error for a text that is too long to show.
std::string explanation(const Tokenizer& tokenizer, std::string_view text, bool json);

}  // namespace gpt
