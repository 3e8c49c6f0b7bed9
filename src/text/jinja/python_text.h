#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/marked_text.h"

namespace gpt {

// What Python's str.strip takes away.
bool is_python_space(char32_t c);
// str.lstrip, rstrip and strip.
std::string_view python_strip(std::string_view text, bool left, bool right);

namespace jinja {

// Where the characters of a text begin, and its end.
std::vector<size_t> char_offsets(std::string_view text);

enum class Case : uint8_t { upper, lower, title, capitalize, swap };
// str.upper and so on: character by character, "ß" becomes "SS" or "Ss".
JinjaText change_case(const JinjaText& text, Case to);
std::string lowered(std::string_view text);

// Whether there is a character and all are of a kind.
bool all_chars(std::string_view text, bool (*is)(char32_t));
bool is_cased_upper(char32_t c);
bool is_cased_lower(char32_t c);

}  // namespace jinja
}  // namespace gpt
