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

// The category of a code point; Cn (not assigned) above U+10FFFF. O(1).
Category category(char32_t code);

// \p{L}, \p{M} and \p{N} of regular expressions.
bool is_letter(Category c);
bool is_mark(Category c);
bool is_number(Category c);

// The property White_Space, which \s stands for.
bool is_white_space(char32_t code);

}  // namespace gpt

namespace gpt::detail {

// The text in Unicode's normalization form C: characters composed with their accents (UAX #15). Bytes that
// belong to no valid character stay. `copy` holds it where it is not the text itself.
std::string_view nfc(std::string_view text, std::string& copy);

}  // namespace gpt::detail
