#pragma once

#include <string>
#include <string_view>

namespace gpt::serve {

// Appends a JSON string with quotes. The text must be valid UTF-8.
void append_json(std::string& out, std::string_view text);

std::string base64(std::string_view bytes);

}  // namespace gpt::serve
