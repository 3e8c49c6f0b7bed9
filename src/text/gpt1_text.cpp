#include "text/gpt1_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace gpt::detail {
namespace {

struct Range {
  char32_t first, last;
};
// Each step-th character from first to last moves to where `image` is for the first one.
struct Moved {
  char32_t first, last, step, image;
};

#include "text/gpt1_table.inc"

// What BertNormalizer calls Chinese characters.
constexpr Range kHan[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},  {0x20000, 0x2A6DF},
                          {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};

// The entry of a sorted table whose range may hold the code, or null.
template <class Entry, size_t N>
const Entry* entry_before(const Entry (&table)[N], char32_t code) {
  const auto behind = std::upper_bound(std::begin(table), std::end(table), code,
                                       [](char32_t c, const Entry& entry) { return c < entry.first; });
  return behind == std::begin(table) || (behind - 1)->last < code ? nullptr : behind - 1;
}

bool is_dropped(char32_t code) {
  const Category c = category(code);
  const bool unseen = c == Category::Cc || c == Category::Cf || c == Category::Co || c == Category::Mn;
  return unseen != (entry_before(kDroppedOtherwise, code) != nullptr);
}

// The canonical decomposition without marks, in lower case: both are stable between versions of Unicode.
void append_normalized(std::u32string& out, char32_t code) {
  if (code > ' ' && code < 0x7F) {  // the usual ones, at once
    out += code >= 'A' && code <= 'Z' ? code - 'A' + 'a' : code;
    return;
  }
  const Moved* moved = entry_before(kMoved, code);
  if (moved != nullptr && (code - moved->first) % moved->step == 0) {
    out += static_cast<char32_t>(moved->image + (code - moved->first));
    return;
  }
  if (is_dropped(code)) return;
  if (is_white_space(code)) {
    out += ' ';
    return;
  }
  utf8proc_int32_t parts[4];  // of a single character (Unicode 16: U+1F82)
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, std::ssize(parts),
                                             UTF8PROC_DECOMPOSE, nullptr);
  GPT_ASSERT(count >= 0 && count <= std::ssize(parts));
  for (const utf8proc_int32_t part : std::span(parts, static_cast<size_t>(count)))
    if (!is_dropped(static_cast<char32_t>(part))) out += static_cast<char32_t>(utf8proc_tolower(part));
}

class Words {
 public:
  void add(char32_t code) {
    if (code == ' ') return end();
    if (is_gpt1_punctuation(code)) {
      end();
      words_.emplace_back(1, code);
      return;
    }
    word_ += code;
  }
  void end() {
    if (!word_.empty()) words_.push_back(std::move(word_));
    word_.clear();
  }
  std::vector<std::u32string> take() { return end(), std::move(words_); }

 private:
  std::u32string word_;
  std::vector<std::u32string> words_;
};

}  // namespace

bool is_gpt1_punctuation(char32_t code) {
  const Category c = category(code);
  const bool apart =
      (c >= Category::Pc && c <= Category::Ps) || (code < 0x80 && c >= Category::Sc && c <= Category::So);
  return apart != (entry_before(kPunctuationOtherwise, code) != nullptr);
}

std::vector<std::u32string> gpt1_words(std::string_view text) {
  Words words;
  std::u32string image;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    at += static_cast<size_t>(c.length);
    image.clear();
    append_normalized(image, c.code);
    const bool han = c.code >= 0x3400 && entry_before(kHan, c.code) != nullptr;
    if (han) words.end();
    for (const char32_t code : image)
      words.add(code);
    if (han) words.end();
  }
  return words.take();
}

}  // namespace gpt::detail
