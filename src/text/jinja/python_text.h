#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/marked_text.h"
#include "text/letter_case.h"

namespace gpt {

// What Python's str.strip takes away.
bool is_python_space(char32_t c);
// str.lstrip, rstrip and strip.
std::string_view python_strip(std::string_view text, bool left, bool right);

namespace jinja {

// Where the characters of a text begin, and its end.
std::vector<size_t> char_offsets(std::string_view text);

// in_case with the origin of each character.
JinjaText change_case(const JinjaText& text, LetterCase to);

// Whether there is a character and all are of a kind.
bool all_chars(std::string_view text, bool (*is)(char32_t));

}  // namespace jinja
}  // namespace gpt
