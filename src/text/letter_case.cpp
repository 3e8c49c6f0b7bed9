#include "text/letter_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "base/utf8.h"
#include "text/unicode.h"

namespace gpt {
namespace {

constexpr char32_t kSigma = 0x3a3, kFinalSigma = 0x3c2, kSmallSigma = 0x3c3;

// A character that becomes several characters in at least one letter case. Unused array elements are 0.
struct SpecialCase {
  char32_t code;
  char32_t lower[3], title[3], upper[3];
};
constexpr SpecialCase kSpecial[] = {
#define GPT_SPECIAL_CASE
#include "text/case_table.inc"
#undef GPT_SPECIAL_CASE
};

struct CodeRange {
  char32_t first, last;
};
// kLowercase and kUppercase list the lowercase and uppercase characters outside the categories Ll and Lu.
// kIgnorable lists the characters that the search for the letter next to a sigma skips.
constexpr CodeRange kLowercase[] = {
#define GPT_OTHER_LOWERCASE
#include "text/case_table.inc"
#undef GPT_OTHER_LOWERCASE
};
constexpr CodeRange kUppercase[] = {
#define GPT_OTHER_UPPERCASE
#include "text/case_table.inc"
#undef GPT_OTHER_UPPERCASE
};
constexpr CodeRange kIgnorable[] = {
#define GPT_OTHER_IGNORABLE
#include "text/case_table.inc"
#undef GPT_OTHER_IGNORABLE
};

bool is_in(const CodeRange* begin, const CodeRange* end, char32_t code) {
  const CodeRange* const range = std::ranges::upper_bound(begin, end, code, {}, &CodeRange::first);
  return range != begin && code <= std::prev(range)->last;
}

bool is_cased(char32_t code) {
  return is_lowercase(code) || is_uppercase(code) || is_titlecase(code);
}

bool is_ignorable(char32_t code) {
  const Category c = category(code);
  return c == Category::Mn || c == Category::Me || c == Category::Cf || c == Category::Lm ||
         c == Category::Sk || is_in(std::begin(kIgnorable), std::end(kIgnorable), code);
}

// begins_cased() and ends_cased() skip ignorable characters, and return true if the first or last remaining
// character is cased.
bool begins_cased(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!is_ignorable(c.code)) return is_cased(c.code);
    at += static_cast<size_t>(c.length);
  }
  return false;
}
bool ends_cased(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80)
      --at;
    const char32_t code = decode_utf8(text, at).code;
    if (!is_ignorable(code)) return is_cased(code);
    text = text.substr(0, at);
  }
  return false;
}

std::string mapped(char32_t code, LetterCase to) {
  std::string out;
  const SpecialCase* const special = std::ranges::lower_bound(kSpecial, code, {}, &SpecialCase::code);
  if (special != std::end(kSpecial) && special->code == code) {
    const auto& codes = to == LetterCase::lower   ? special->lower
                        : to == LetterCase::title ? special->title
                                                  : special->upper;
    for (const char32_t one : codes) {
      if (one != 0) append_utf8(out, one);
    }
    return out;
  }
  const auto c = static_cast<utf8proc_int32_t>(code);
  append_utf8(out, static_cast<char32_t>(to == LetterCase::lower   ? utf8proc_tolower(c)
                                         : to == LetterCase::title ? utf8proc_totitle(c)
                                                                   : utf8proc_toupper(c)));
  return out;
}

}  // namespace

bool is_lowercase(char32_t code) {
  return category(code) == Category::Ll || is_in(std::begin(kLowercase), std::end(kLowercase), code);
}
bool is_uppercase(char32_t code) {
  return category(code) == Category::Lu || is_in(std::begin(kUppercase), std::end(kUppercase), code);
}
bool is_titlecase(char32_t code) {
  return category(code) == Category::Lt;
}

void change_case(std::string_view text, LetterCase to,
                 const std::function<void(size_t, std::string_view)>& f) {
  bool begins = to == LetterCase::title || to == LetterCase::capitalize;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const auto length = static_cast<size_t>(c.length);
    LetterCase one = to == LetterCase::upper || begins ? to : LetterCase::lower;
    if (begins) one = LetterCase::title;
    if (to == LetterCase::swap) one = is_uppercase(c.code) ? LetterCase::lower : LetterCase::upper;
    const bool changes = to != LetterCase::swap || is_uppercase(c.code) || is_lowercase(c.code);
    if (c.status != Utf8Status::valid || !changes) {
      f(at, text.substr(at, length));
    } else if (c.code == kSigma && one == LetterCase::lower) {
      std::string sigma;
      const bool final = ends_cased(text.substr(0, at)) && !begins_cased(text.substr(at + length));
      append_utf8(sigma, final ? kFinalSigma : kSmallSigma);
      f(at, sigma);
    } else {
      f(at, mapped(c.code, one));
    }
    begins = to == LetterCase::title && !is_cased(c.code);
    at += length;
  }
}

std::string in_case(std::string_view text, LetterCase to) {
  std::string out;
  change_case(text, to, [&](size_t, std::string_view changed) { out += changed; });
  return out;
}

}  // namespace gpt
