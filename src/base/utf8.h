#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

inline constexpr char32_t kReplacementChar = 0xFFFD;

enum class Utf8Status { valid, invalid, incomplete };

// The result of decoding one character. If the character is not valid, `length` is the length of the "maximal
// subpart" (Unicode 16.0, §3.9): the longest prefix of a well-formed character, at least one byte.
// `incomplete` means that the text ended inside a character that more bytes could complete.
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

// Returns the offset of the first byte that is not part of a valid character, or nothing if the text is
// valid.
std::optional<int64_t> first_invalid_utf8(std::string_view text);

// Returns the text with every maximal invalid subpart replaced by U+FFFD, like Python's errors="replace".
std::string replace_invalid_utf8(std::string_view text);

// Returns the number of characters in the text. Every maximal invalid subpart counts as one character.
int64_t count_chars(std::string_view text);

// Returns the first `max_chars` characters on one line, for messages and previews. Control characters and
// backslashes are escaped, and invalid bytes become U+FFFD.
std::string printable_text(std::string_view text, int64_t max_chars);

// Converts a stream of byte chunks to text that is valid UTF-8 at any time. A character is returned when its
// last byte has arrived; invalid bytes become U+FFFD. The concatenated results equal replace_invalid_utf8 of
// all bytes. Holds back at most 3 bytes.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string flush();  // returns held-back bytes as U+FFFD and resets the stream
  bool inside_char() const { return !pending_.empty(); }  // true if bytes are held back

 private:
  std::string pending_;
};

}  // namespace gpt
