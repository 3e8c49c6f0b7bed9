#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

inline constexpr char32_t kReplacementChar = 0xFFFD;

enum class Utf8Status { valid, invalid, incomplete };

// One step of decoding. When not valid, `length` is that of the "maximal subpart" (Unicode 16.0, §3.9):
// the longest prefix of a well-formed character, at least one byte. `incomplete` means that the text
// ended inside a character that more bytes could complete.
struct Utf8Char {
  char32_t code = kReplacementChar;
  int length = 1;
  Utf8Status status = Utf8Status::invalid;
};

// Decodes the character at byte `at` < text.size(). Overlong forms, surrogates and code points above
// U+10FFFF are invalid.
Utf8Char decode_utf8(std::string_view text, size_t at);

// Appends a Unicode scalar value (not a surrogate, at most U+10FFFF).
void append_utf8(std::string& out, char32_t code);

// The offset of the first byte that is not part of a valid character.
std::optional<int64_t> first_invalid_utf8(std::string_view text);

// The text with every maximal invalid subpart replaced by U+FFFD, as Python's errors="replace".
std::string replace_invalid_utf8(std::string_view text);

// How many characters the text has, every maximal invalid subpart counted as one.
int64_t count_chars(std::string_view text);

// The first `max_chars` characters on one line for messages and previews: control characters and
// backslashes escaped, invalid bytes as U+FFFD.
std::string printable_text(std::string_view text, int64_t max_chars);

// Turns pieces of bytes that arrive one after the other into text that is valid at every moment: a
// character is handed out when its last byte has arrived, invalid bytes as U+FFFD. Concatenating all
// results equals replace_invalid_utf8 of all bytes. Holds back at most 3 bytes.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string flush();  // what is still held back, as U+FFFD; the stream may be used again
  bool inside_char() const { return !pending_.empty(); }  // something is held back

 private:
  std::string pending_;
};

}  // namespace gpt
