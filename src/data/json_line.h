#pragma once

#include <string>
#include <string_view>

namespace gpt {

// The value of a field of a JSON object, which must be a string. Throws Error naming `place` for what is no
// JSON object, is nested deeper than 32, lacks the field, has it twice or with another type. Other fields may
// hold anything.
std::string json_line_text(std::string_view line, const std::string& field, const std::string& place);

}  // namespace gpt
