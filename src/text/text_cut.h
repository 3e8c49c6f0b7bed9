#pragma once

#include <cstddef>
#include <string_view>

namespace gpt {

// Returns the last position in (begin, end] at which the text can be cut in two without changing the pieces
// of any pattern of split.h. Returns `begin` if there is none. A safe position is before a space between two
// ASCII letters. It is also after a newline that follows a character other than white space and precedes an
// ASCII letter or digit. Reads text[end] too, if it exists; otherwise `end` is not a safe position.
size_t last_safe_cut(std::string_view text, size_t begin, size_t end);

// Does the same, but if there is no safe position, returns the last end of a character in (begin, end].
// Returns `end` if the bytes are not UTF-8.
size_t last_cut(std::string_view text, size_t begin, size_t end);

}  // namespace gpt
