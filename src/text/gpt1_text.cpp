#include "text/gpt1_text.h"

#include <algorithm>
#include <iterator>

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
struct Longer {
  char32_t code, first, second, third;  // third: 0 where there are two
};

#include "text/gpt1_table.inc"

// The Unicode Standard, section 3.12.
constexpr char32_t kHangul = 0xAC00, kHangulEnd = 0xD7A4;
constexpr char32_t kLeading = 0x1100, kVowel = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kVowels = 21, kTrailings = 28;

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

void append_hangul(std::u32string& out, char32_t syllable) {
  const char32_t index = syllable - kHangul;
  out += static_cast<char32_t>(kLeading + index / (kVowels * kTrailings));
  out += static_cast<char32_t>(kVowel + index / kTrailings % kVowels);
  if (index % kTrailings != 0) out += static_cast<char32_t>(kTrailing + index % kTrailings);
}

void append_normalized(std::u32string& out, char32_t code) {
  if (code >= kHangul && code < kHangulEnd) return append_hangul(out, code);
  if (entry_before(kDropped, code) != nullptr) return;
  const Moved* moved = entry_before(kMoved, code);
  if (moved != nullptr && (code - moved->first) % moved->step == 0) {
    out += static_cast<char32_t>(moved->image + (code - moved->first));
    return;
  }
  const auto longer = std::ranges::lower_bound(kLonger, code, {}, &Longer::code);
  if (longer == std::end(kLonger) || longer->code != code) {
    out += code;
    return;
  }
  out += {longer->first, longer->second};
  if (longer->third != 0) out += longer->third;
}

class Words {
 public:
  void add(char32_t code) {
    if (code == ' ') return end();
    if (entry_before(kPunctuation, code) != nullptr) {
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
  return entry_before(kPunctuation, code) != nullptr;
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
