#pragma once

namespace gpt {

// Of a byte or a code point, in any locale; false for everything outside ASCII.
inline constexpr auto is_ascii_digit = [](auto c) { return c >= '0' && c <= '9'; };
inline constexpr auto is_ascii_letter = [](auto c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
};
inline constexpr auto is_ascii_alnum = [](auto c) { return is_ascii_letter(c) || is_ascii_digit(c); };

}  // namespace gpt
