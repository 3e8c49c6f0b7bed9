#pragma once

#include <string>
#include <string_view>

namespace gpt::serve {

// Appends a JSON string, quotes included. The text is valid UTF-8.
void append_json(std::string& out, std::string_view text);
// Appends a number that parses back as the same one; null where it is not finite.
void append_json(std::string& out, double value);

std::string base64(std::string_view bytes);

}  // namespace gpt::serve
