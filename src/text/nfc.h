#pragma once

#include <string>
#include <string_view>

namespace gpt::detail {

// The text in Unicode's normalization form C: characters composed with their accents (UAX #15). Bytes that
// belong to no valid character stay. `copy` holds it where it is not the text itself.
std::string_view nfc(std::string_view text, std::string& copy);

}  // namespace gpt::detail
