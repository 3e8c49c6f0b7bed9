#include "text/split_scan.h"

#include <memory>

#include "text/unicode.h"

namespace gpt::detail {
namespace {

uint8_t class_of(char32_t code) {
  const Category c = category(code);
  const bool caseless = c == Category::Lm || c == Category::Lo || is_mark(c);
  uint8_t bits = 0;
  if (is_letter(c)) bits |= kLetter;
  if (is_number(c)) bits |= kNumber;
  if (is_white_space(code)) bits |= kSpace;
  if (code == '\r' || code == '\n') bits |= kNewline;
  if (caseless || c == Category::Lu || c == Category::Lt) bits |= kUpper;
  if (caseless || c == Category::Ll) bits |= kLower;
  return bits;
}

}  // namespace

const CharClasses& char_classes() {
  static const std::unique_ptr<const CharClasses> all = [] {
    auto t = std::make_unique<CharClasses>();
    for (char32_t code = 0; code < t->size(); ++code)
      (*t)[code] = class_of(code);
    return t;
  }();
  return *all;
}

}  // namespace gpt::detail
