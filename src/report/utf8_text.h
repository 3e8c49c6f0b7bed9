#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpt {

// Returns the code point at byte `position` and advances the position past it. Malformed input (including
// overlong forms, surrogates and truncated sequences) gives U+FFFD and advances by one byte. Requires
// position < text.size().
char32_t next_code_point(std::string_view text, size_t& position);

// Returns the text as valid UTF-8 without control characters. Malformed bytes and noncharacters become
// U+FFFD, and control characters become visible symbols (U+2400...). With keep_layout, newlines and tabs are
// kept. The result is safe for a terminal and legal in XML.
std::string visible_text(std::string_view text, bool keep_layout = false);

// Returns visible_text with the five markup characters escaped. The result is safe in elements and in quoted
// attributes.
std::string escape_markup(std::string_view text, bool keep_layout = false);

// Escapes JSON for a script element. Only "<" is escaped, because it could end the element.
std::string escape_script(std::string_view json);

// Returns the number of columns that a terminal uses for a text: 0 for combining marks, 2 for East Asian wide
// characters and emoji, 1 for other characters. Uses a small table of ranges instead of all Unicode data.
int display_width(std::string_view text);

// Returns the longest prefix that fits into `width` columns. A truncated text ends in "…" if width >= 2.
std::string cut_to_width(std::string_view text, int width);

}  // namespace gpt
