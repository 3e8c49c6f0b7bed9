#pragma once

#include <string>
#include <string_view>

namespace gpt {

// Text from a file, made safe for an error message: in double quotes, bytes outside printable ASCII as
// \xNN, at most about 80 characters.
std::string printable(std::string_view untrusted);

}  // namespace gpt
