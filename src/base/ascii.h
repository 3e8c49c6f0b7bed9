#pragma once

namespace gpt {

// Tests for ASCII character classes, independent of the locale. The argument is a byte or a code point. The
// tests return false for everything outside ASCII.
inline constexpr auto is_ascii_digit = [](auto c) { return c >= '0' && c <= '9'; };
inline constexpr auto is_ascii_letter = [](auto c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
};
inline constexpr auto is_ascii_alnum = [](auto c) { return is_ascii_letter(c) || is_ascii_digit(c); };

}  // namespace gpt
