#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace gpt {

// General categories (UAX #44, table 12), in utf8proc's order.
// clang-format off
enum class Category : uint8_t {
  Cn, Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Cs, Co
};
// clang-format on

// Returns the category of a code point, or Cn (not assigned) above U+10FFFF. O(1).
Category category(char32_t code);

// Equivalent to \p{L}, \p{M} and \p{N} in regular expressions.
bool is_letter(Category c);
bool is_mark(Category c);
bool is_number(Category c);

// Returns true for characters with the property White_Space, which \s matches in regular expressions.
bool is_white_space(char32_t code);

}  // namespace gpt

namespace gpt::detail {

// Returns the text in Unicode's normalization form C, in which characters are composed with their accents
// (UAX #15). Invalid bytes are not changed. If the result differs from the text, the result is stored in
// `copy`.
std::string_view nfc(std::string_view text, std::string& copy);

}  // namespace gpt::detail
