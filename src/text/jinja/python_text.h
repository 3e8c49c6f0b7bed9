#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/marked_text.h"
#include "text/letter_case.h"

namespace gpt {

// Returns true for characters that Python's str.strip removes.
bool is_python_space(char32_t c);
// Equivalent to str.lstrip, rstrip and strip.
std::string_view python_strip(std::string_view text, bool left, bool right);

namespace jinja {

// Returns the byte positions at which characters begin, and the size of the text.
std::vector<size_t> char_offsets(std::string_view text);

// Changes the letter case like in_case(), and keeps the origin of each character.
JinjaText change_case(const JinjaText& text, LetterCase to);

// Returns true if the text is not empty and is(c) is true for every character c.
bool all_chars(std::string_view text, bool (*is)(char32_t));

}  // namespace jinja
}  // namespace gpt
