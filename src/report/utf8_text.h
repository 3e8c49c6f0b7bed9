#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpt {

// Reads the code point that starts at byte `position` and moves past it. Malformed input (overlong forms,
// surrogates and cut sequences included) gives U+FFFD and moves by one byte. position < text.size().
char32_t next_code_point(std::string_view text, size_t& position);

// Valid UTF-8 without control characters: malformed bytes and noncharacters become U+FFFD, controls
// become their visible pictures (U+2400...). With keep_layout newlines and tabs stay. Makes any bytes safe
// for a terminal, and legal in XML.
std::string visible_text(std::string_view text, bool keep_layout = false);

// visible_text with the five markup characters escaped: safe as element text and in quoted attributes.
std::string escape_markup(std::string_view text, bool keep_layout = false);

// JSON that may stand inside a script element, where "<" would be the only way out.
std::string escape_script(std::string_view json);

// Columns that a terminal uses: combining marks 0, East Asian wide characters and emoji 2, others 1.
// A small table of ranges, not the whole of Unicode.
int display_width(std::string_view text);

// The longest beginning that fits `width` columns; a cut text ends in "…" when width >= 2.
std::string cut_to_width(std::string_view text, int width);

}  // namespace gpt
