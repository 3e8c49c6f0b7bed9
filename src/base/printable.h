#pragma once

#include <string>
#include <string_view>

namespace gpt {

// Makes text from a file safe for an error message: returns it in double quotes, with bytes outside printable
// ASCII as \xNN, and limited to about 80 characters.
std::string printable(std::string_view untrusted);

}  // namespace gpt
