#pragma once

#include <string>
#include <string_view>

namespace gpt::serve {

// Appends a JSON string with quotes. The text must be valid UTF-8.
void append_json(std::string& out, std::string_view text);
// Appends a number that parses back to the same value. Appends null if the value is not finite.
void append_json(std::string& out, double value);

std::string base64(std::string_view bytes);

}  // namespace gpt::serve
