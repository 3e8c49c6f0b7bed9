#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/utf8.h"

namespace gpt {
namespace {

constexpr char32_t kCodes = 0x110000;

using enum Category;
static_assert(static_cast<int>(Lo) == UTF8PROC_CATEGORY_LO && static_cast<int>(Co) == UTF8PROC_CATEGORY_CO);

// Characters that are newer than the Unicode version of utf8proc.
struct Newer {
  char32_t first, last;
  Category category;
};
constexpr Newer kNewer[] = {
#include "text/unicode_table.inc"
};

using Table = std::array<Category, kCodes>;

// Stores one byte for each code point, which takes 1.1 MB. Classifying a typical text only reads a few pages
// of this table.
const Table& table() {
  static const std::unique_ptr<const Table> all = [] {
    auto t = std::make_unique<Table>();
    for (char32_t code = 0; code < kCodes; ++code)
      (*t)[code] = static_cast<Category>(utf8proc_category(static_cast<utf8proc_int32_t>(code)));
    for (const Newer& range : kNewer)
      std::fill(t->begin() + range.first, t->begin() + range.last + 1, range.category);
    return t;
  }();
  return *all;
}

}  // namespace

Category category(char32_t code) {
  return code < kCodes ? table()[code] : Category::Cn;
}

bool is_letter(Category c) {
  return c >= Lu && c <= Lo;
}
bool is_mark(Category c) {
  return c >= Mn && c <= Me;
}
bool is_number(Category c) {
  return c >= Nd && c <= No;
}

bool is_white_space(char32_t code) {
  const Category c = category(code);
  return c == Category::Zs || c == Category::Zl || c == Category::Zp || (code >= 0x09 && code <= 0x0D) ||
         code == 0x85;
}

}  // namespace gpt

namespace gpt::detail {
namespace {

// Characters below U+0300 are already composed and never combine with the character before them.
constexpr unsigned char kFirstByte = 0xCC;

struct CategoryRange {
  char32_t first, last;
};

// Characters that Hugging Face's normalizer neither reorders nor composes. The list contains marks that were
// added after Unicode 9. It also contains characters that became the first half of a composition after
// Unicode 9. The list was determined by testing all characters with tokenizers 0.23.3.
constexpr CategoryRange kAlone[] = {
    {0x5C8, 0x5C9},     {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1AF0},
    {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x105D2, 0x105D2}, {0x105DA, 0x105DA}, {0x10D24, 0x10D27},
    {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC}, {0x10ECB, 0x10ECF}, {0x10EF0, 0x10EFB}, {0x10EFD, 0x10EFF},
    {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11382, 0x11382},
    {0x11384, 0x11384}, {0x1138B, 0x1138B}, {0x11390, 0x11390}, {0x113C2, 0x113C2}, {0x113CE, 0x113D0},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11935, 0x11935}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
    {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x1611E, 0x1611E}, {0x16121, 0x16122},
    {0x16129, 0x16129}, {0x1612F, 0x1612F}, {0x16D63, 0x16D63}, {0x16D67, 0x16D67}, {0x16D69, 0x16D69},
    {0x16FF0, 0x16FF1}, {0x1D127, 0x1D128}, {0x1D250, 0x1D252}, {0x1D25B, 0x1D25C}, {0x1D25F, 0x1D25F},
    {0x1D280, 0x1D281}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
    {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}, {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF},
    {0x1E6F5, 0x1E6F5}};

bool stands_alone(char32_t code) {
  const auto behind = std::ranges::upper_bound(kAlone, code, {}, &CategoryRange::first);
  return behind != std::begin(kAlone) && code <= (behind - 1)->last;
}

void append_composed(std::string& out, std::string_view part) {
  if (part.empty()) return;
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  utf8proc_uint8_t* composed = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(part.data()),
                                             static_cast<utf8proc_ssize_t>(part.size()), &composed, kOptions);
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(composed, std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  if (size < 0) fail("cannot normalize the text to NFC: {}", utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(composed), static_cast<size_t>(size));
}

}  // namespace

std::string_view nfc(std::string_view text, std::string& copy) {
  if (std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= kFirstByte; }))
    return text;
  copy.clear();
  size_t begin = 0;  // start of the text that is composed next
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (c.status != Utf8Status::valid || stands_alone(c.code)) {
      append_composed(copy, text.substr(begin, at - begin));
      copy += text.substr(at, static_cast<size_t>(c.length));
      begin = at + static_cast<size_t>(c.length);
    }
    at += static_cast<size_t>(c.length);
  }
  append_composed(copy, text.substr(begin));
  return copy;
}

}  // namespace gpt::detail
