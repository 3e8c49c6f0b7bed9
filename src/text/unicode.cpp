#include "text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>

namespace gpt {
namespace {

constexpr char32_t kCodes = 0x110000;

using enum Category;

struct Range {
  char32_t first;
  Category category;
  Category next = category;  // the two take turns
};

constexpr Range kRanges[] = {
#include "text/unicode_table.inc"
};

using Table = std::array<Category, kCodes>;

// One byte per code point: 1.1 MB, of which a text touches few pages.
const Table& table() {
  static const std::unique_ptr<const Table> all = [] {
    auto t = std::make_unique<Table>();
    for (size_t i = 0; i < std::size(kRanges); ++i) {
      const Range& range = kRanges[i];
      const char32_t end = i + 1 < std::size(kRanges) ? kRanges[i + 1].first : kCodes;
      std::fill(t->begin() + range.first, t->begin() + end, range.category);
      if (range.next == range.category) continue;
      for (char32_t code = range.first + 1; code < end; code += 2)
        (*t)[code] = range.next;
    }
    return t;
  }();
  return *all;
}

}  // namespace

Category category(char32_t code) {
  return code < kCodes ? table()[code] : Category::Cn;
}

bool is_letter(Category c) {
  return c >= Category::Ll && c <= Category::Lu;
}
bool is_mark(Category c) {
  return c >= Category::Mc && c <= Category::Mn;
}
bool is_number(Category c) {
  return c >= Category::Nd && c <= Category::No;
}

bool is_white_space(char32_t code) {
  const Category c = category(code);
  return c == Category::Zs || c == Category::Zl || c == Category::Zp || (code >= 0x09 && code <= 0x0D) ||
         code == 0x85;
}

}  // namespace gpt
