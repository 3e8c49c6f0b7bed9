#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gpt::detail {

// The character that stands for each byte in byte-level vocabularies: printable Latin-1 is itself, the
// other 68 bytes are U+0100 onwards in order. Source: GPT-2's encoder.py, bytes_to_unicode.
const std::array<char32_t, 256>& byte_level_alphabet();

// Bytes in that alphabet.
std::string in_alphabet(std::string_view bytes);

// The way back.
class AlphabetReader {
 public:
  AlphabetReader();
  // The bytes that the characters of a token stand for; nothing if one of them stands for no byte.
  std::optional<std::string> bytes_of(std::string_view token) const;

 private:
  std::unordered_map<char32_t, char> bytes_;
};

}  // namespace gpt::detail
