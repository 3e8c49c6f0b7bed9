#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gpt::detail {

// Returns the character that represents each byte in byte-level vocabularies. Printable Latin-1 characters
// represent themselves. The other 68 bytes are represented by U+0100 and the following characters, in order.
// Source: GPT-2's encoder.py, bytes_to_unicode.
const std::array<char32_t, 256>& byte_level_alphabet();

// Converts bytes to the byte-level alphabet.
std::string in_alphabet(std::string_view bytes);

// Converts text in the byte-level alphabet back to bytes.
class AlphabetReader {
 public:
  AlphabetReader();
  // Returns the bytes of a token, or nullopt if one of its characters represents no byte.
  std::optional<std::string> bytes_of(std::string_view token) const;

 private:
  std::unordered_map<char32_t, char> bytes_;
};

}  // namespace gpt::detail
