#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/utf8.h"
#include "text/split.h"

// The patterns of split.h as functions for the loops over whole texts of this folder.
namespace gpt::detail {

// What the patterns tell characters apart by.
enum : uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,
  kNewline = 8,  // \r and \n
  kUpper = 16,   // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLower = 32,   // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
};
constexpr uint8_t kNotOther = kLetter | kNumber | kSpace;

// Of every code point.
using CharClasses = std::array<uint8_t, 0x110000>;
const CharClasses& char_classes();

// A text with the characters that begin at given bytes.
class SplitText {
 public:
  explicit SplitText(std::string_view text) : text_(text), classes_(char_classes().data()) {}

  std::string_view text() const { return text_; }

  struct Char {
    uint8_t bits = 0;
    uint8_t length = 0;  // 0: the text has ended
  };
  Char at(size_t i) const {
    if (i >= text_.size()) return {};
    const auto byte = static_cast<unsigned char>(text_[i]);
    if (byte < 0x80) return {classes_[byte], 1};
    return beyond_ascii(i);
  }
  bool has(size_t i, uint8_t bits) const { return (at(i).bits & bits) != 0; }
  bool is(size_t i, char c) const { return i < text_.size() && text_[i] == c; }
  bool ends_at(size_t i) const { return i >= text_.size(); }
  bool is_other(size_t i) const {
    const Char c = at(i);
    return c.length > 0 && (c.bits & kNotOther) == 0;
  }
  // Behind the characters from i on that have one of the bits, at most `most` of them.
  size_t run(size_t i, uint8_t bits, size_t most = SIZE_MAX) const {
    for (Char c = at(i); most > 0 && (c.bits & bits) != 0; c = at(i), --most)
      i += c.length;
    return i;
  }
  // The same for letters, eight ASCII bytes at once.
  size_t run_of_letters(size_t i) const {
    for (;;) {
      while (i + 8 <= text_.size()) {
        const int count = ascii_letters(text_.data() + i);
        i += static_cast<size_t>(count);
        if (count < 8) break;
      }
      const Char c = at(i);
      if ((c.bits & kLetter) == 0) return i;
      i += c.length;
    }
  }
  size_t run_of_others(size_t i) const {
    for (Char c = at(i); c.length > 0 && (c.bits & kNotOther) == 0; c = at(i))
      i += c.length;
    return i;
  }

  // 's, 'd, 'm, 't, 'll, 've, 're, in either case if `fold` says so; the long s is an s then. i where there
  // is none.
  size_t contraction(size_t i, bool fold) const {
    if (!is(i, '\'')) return i;
    const auto letter = [&](size_t k) { return k < text_.size() ? lower(text_[k], fold) : '\0'; };
    const char first = letter(i + 1), second = letter(i + 2);
    if (first == 's' || first == 'd' || first == 'm' || first == 't') return i + 2;
    if ((first == 'l' && second == 'l') || ((first == 'v' || first == 'r') && second == 'e')) return i + 3;
    if (fold && text_.substr(i + 1, 2) == "\u017F") return i + 3;
    return i;
  }

  // The rest of all patterns: white space from i on, some of which stays with the word behind it.
  size_t white_space(size_t i, bool cut_after_newline, bool whole_at_end) const {
    size_t end = i, last = i, behind_newline = i;
    for (Char c = at(i); (c.bits & kSpace) != 0; c = at(end)) {
      last = end;
      end += c.length;
      if ((c.bits & kNewline) != 0) behind_newline = end;
    }
    if (whole_at_end && ends_at(end)) return end;
    if (cut_after_newline && behind_newline > i) return behind_newline;
    return ends_at(end) || last == i ? end : last;
  }

 private:
  static char lower(char c, bool fold) {
    return fold && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }

  // How many of eight bytes are ASCII letters before the first that is none. The highest bit of each byte of
  // a sum says whether the byte reached a bound; no carry leaves a byte, for its own highest bit is taken
  // away before.
  static int ascii_letters(const char* bytes) {
    constexpr uint64_t kEach = 0x0101010101010101u, kHigh = 0x80 * kEach;
    uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    const uint64_t folded = (word | 0x20 * kEach) & ~kHigh;
    const uint64_t from_a = folded + (0x80 - 'a') * kEach, behind_z = folded + (0x80 - 'z' - 1) * kEach;
    const uint64_t others = ~(from_a & ~behind_z & ~word) & kHigh;
    static_assert(std::endian::native == std::endian::little);
    return std::countr_zero(others) / 8;
  }

  Char beyond_ascii(size_t i) const {
    const Utf8Char c = decode_utf8(text_, i);
    if (c.status != Utf8Status::valid) return {0, 1};
    return {classes_[c.code], static_cast<uint8_t>(c.length)};
  }

  std::string_view text_;
  const uint8_t* classes_;
};

inline size_t gpt2_end(const SplitText& t, size_t at) {
  const size_t word = at + (t.is(at, ' ') ? 1 : 0);
  const SplitText::Char c = t.at(word);
  if ((c.bits & kLetter) != 0) return t.run_of_letters(word + c.length);
  if ((c.bits & kNumber) != 0) return t.run(word + c.length, kNumber);
  if (c.length == 0 || (c.bits & kSpace) != 0) return t.white_space(at, false, true);
  if (const size_t end = t.contraction(at, false); end > at) return end;
  return t.run_of_others(word + c.length);
}

// [^\r\n\p{L}\p{N}]? : where what follows it begins; `at` if there is no such character.
inline size_t behind_prefix(const SplitText& t, size_t at) {
  const SplitText::Char c = t.at(at);
  return (c.bits & (kNewline | kLetter | kNumber)) != 0 ? at : at + c.length;
}

//  ?[^\s\p{L}\p{N}]+[\r\n]* : `at` if it does not match.
inline size_t symbols_end(const SplitText& t, size_t at, bool slashes) {
  size_t end = at + (t.is(at, ' ') ? 1 : 0);
  if (!t.is_other(end)) return at;
  end = t.run_of_others(end);
  while (t.has(end, kNewline) || (slashes && t.is(end, '/')))
    ++end;
  return end;
}

inline size_t gpt4_end(const SplitText& t, size_t at, size_t digits, bool whole_at_end) {
  if (const size_t end = t.contraction(at, true); end > at) return end;
  const size_t word = behind_prefix(t, at);
  if (t.has(word, kLetter)) return t.run_of_letters(word);
  if (const size_t end = t.run(at, kNumber, digits); end > at) return end;
  if (const size_t end = symbols_end(t, at, false); end > at) return end;
  return t.white_space(at, true, whole_at_end);
}

// [upper]*[lower]+ : `at` if it does not match. Characters without case are both, so upper ones give back the
// last of them when no lower one follows.
inline size_t capitalized_end(const SplitText& t, size_t at) {
  size_t i = at, behind_caseless = at;
  for (SplitText::Char c = t.at(i); (c.bits & kUpper) != 0; c = t.at(i)) {
    i += c.length;
    if ((c.bits & kLower) != 0) behind_caseless = i;
  }
  const size_t end = t.run(i, kLower);
  return end > i ? end : behind_caseless;
}

inline size_t o200k_end(const SplitText& t, size_t at) {
  const size_t word = behind_prefix(t, at);
  for (const size_t from : {word, at}) {
    if (const size_t end = capitalized_end(t, from); end > from) return t.contraction(end, true);
  }
  for (const size_t from : {word, at}) {  // [upper]+, for lower ones would have matched above
    if (const size_t end = t.run(from, kUpper); end > from) return t.contraction(end, true);
  }
  if (const size_t end = t.run(at, kNumber, 3); end > at) return end;
  if (const size_t end = symbols_end(t, at, true); end > at) return end;
  return t.white_space(at, true, false);
}

// Calls use(split), where split(text, at) is where the piece at `at` ends.
template <class Use>
auto with_split(SplitPattern pattern, Use&& use) {
  switch (pattern) {
    case SplitPattern::gpt2:
      return use([](const SplitText& t, size_t at) { return gpt2_end(t, at); });
    case SplitPattern::cl100k:
      return use([](const SplitText& t, size_t at) { return gpt4_end(t, at, 3, true); });
    case SplitPattern::llama3:
      return use([](const SplitText& t, size_t at) { return gpt4_end(t, at, 3, false); });
    case SplitPattern::nanochat:
      return use([](const SplitText& t, size_t at) { return gpt4_end(t, at, 2, false); });
    case SplitPattern::qwen2:
      return use([](const SplitText& t, size_t at) { return gpt4_end(t, at, 1, false); });
    case SplitPattern::o200k:
      break;
  }
  return use([](const SplitText& t, size_t at) { return o200k_end(t, at); });
}

}  // namespace gpt::detail
