#pragma once

#include <cstddef>
#include <string_view>

namespace gpt {

// Returns the last safe cut position in (begin, end], or `begin` if there is none. Cutting a text at a safe
// position does not change the pieces of any pattern of split.h. A position is safe if it is before a space
// between two ASCII letters. A position is also safe if it is between a newline and an ASCII letter or digit,
// and the character before the newline is not white space. Also reads text[end] if `end` is inside the text.
// The end of the text is not a safe position.
size_t last_safe_cut(std::string_view text, size_t begin, size_t end);

// Returns the last safe cut position in (begin, end]. If there is no safe position, returns the last position
// in (begin, end] at which a character ends. Returns `end` if the bytes are not UTF-8.
size_t last_cut(std::string_view text, size_t begin, size_t end);

}  // namespace gpt
