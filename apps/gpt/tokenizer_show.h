#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace gpt {

// Returns the facts about a tokenizer, as a table or as JSON.
std::string describe_tokenizer(const Tokenizer& tokenizer, bool json);

// Shows how a text is split into pieces and how these are merged, as text (colored on a terminal) or as JSON.
// Throws Error if the text is too long to show.
std::string explanation(const Tokenizer& tokenizer, std::string_view text, bool json);

}  // namespace gpt
