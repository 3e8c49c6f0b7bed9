#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/utf8.h"
#include "text/split.h"

// Implements the patterns of split.h for whole texts. Processes 64 bytes of text at a time as bit masks. If
// the bit masks do not suffice, a function finds the end of a single piece.
namespace gpt::detail {

// The character classes that the patterns distinguish.
enum : uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,
  kNewline = 8,  // \r and \n
  kUpper = 16,   // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  kLower = 32,   // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
};
constexpr uint8_t kNotOther = kLetter | kNumber | kSpace;

// The character classes of every code point.
using CharClasses = std::array<uint8_t, 0x110000>;
const CharClasses& char_classes();

// A text in which the class and length of the character at any byte can be looked up.
class SplitText {
 public:
  explicit SplitText(std::string_view text) : text_(text), classes_(char_classes().data()) {}

  std::string_view text() const { return text_; }

  struct Char {
    uint8_t bits = 0;
    uint8_t length = 0;  // 0: end of the text
  };
  Char at(size_t i) const {
    if (i >= text_.size()) return {};
    const auto byte = static_cast<unsigned char>(text_[i]);
    if (byte < 0x80) return {classes_[byte], 1};
    return beyond_ascii(i);
  }
  // Returns the class and length of the character that begins with a non-ASCII byte. The fast path is for
  // characters of two or three bytes that are not at the end of the text.
  Char beyond_ascii(size_t i) const {
    if (text_.size() - i < 4) return any(i);
    uint32_t bytes;
    std::memcpy(&bytes, text_.data() + i, sizeof bytes);
    const uint32_t second = bytes >> 8 & 0x3F;
    if ((bytes & 0xC0E0) == 0x80C0) {
      const uint32_t code = (bytes & 0x1F) << 6 | second;
      if (code >= 0x80) return {classes_[code], 2};
    } else if ((bytes & 0xC0C0F0) == 0x8080E0) {
      const uint32_t code = (bytes & 0xF) << 12 | second << 6 | (bytes >> 16 & 0x3F);
      if (code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) return {classes_[code], 3};
    }
    return any(i);
  }
  bool has(size_t i, uint8_t bits) const { return (at(i).bits & bits) != 0; }
  bool is(size_t i, char c) const { return i < text_.size() && text_[i] == c; }
  bool ends_at(size_t i) const { return i >= text_.size(); }
  bool is_other(size_t i) const {
    const Char c = at(i);
    return c.length > 0 && (c.bits & kNotOther) == 0;
  }
  // Returns the end of a run of characters, from i on, that have one of the bits. The run has at most `most`
  // characters.
  size_t run(size_t i, uint8_t bits, size_t most = SIZE_MAX) const {
    for (Char c = at(i); most > 0 && (c.bits & bits) != 0; c = at(i), --most)
      i += c.length;
    return i;
  }
  // Returns the end of a run of letters. Checks eight ASCII bytes at a time.
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

  // Returns the end of a contraction at i ('s, 'd, 'm, 't, 'll, 've or 're), or i if there is no contraction.
  // If `fold` is true, upper case letters and the long s also match.
  size_t contraction(size_t i, bool fold) const {
    if (!is(i, '\'')) return i;
    const auto letter = [&](size_t k) { return k < text_.size() ? lower(text_[k], fold) : '\0'; };
    const char first = letter(i + 1), second = letter(i + 2);
    if (first == 's' || first == 'd' || first == 'm' || first == 't') return i + 2;
    if ((first == 'l' && second == 'l') || ((first == 'v' || first == 'r') && second == 'e')) return i + 3;
    if (fold && text_.substr(i + 1, 2) == "\u017F") return i + 3;
    return i;
  }

  // Matches white space from i on, like the last alternatives of all patterns. The last white space character
  // may be left for the next word.
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

  // Returns the number of ASCII letters at the beginning of eight bytes. Adding a constant to each byte sets
  // the highest bit of a byte if the byte is at least a bound. The additions do not carry into the next byte,
  // because the highest bits are cleared first.
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

  Char any(size_t i) const {
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

// Matches [^\r\n\p{L}\p{N}]? and returns the position after it, or `at` if there is no such character.
inline size_t behind_prefix(const SplitText& t, size_t at) {
  const SplitText::Char c = t.at(at);
  return (c.bits & (kNewline | kLetter | kNumber)) != 0 ? at : at + c.length;
}

// Matches " ?[^\s\p{L}\p{N}]+[\r\n]*" and returns the position after it, or `at` if it does not match.
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

// Matches [upper]*[lower]+ and returns the position after it, or `at` if it does not match. Characters
// without case belong to both classes. If no lower case letter follows, [upper]* backtracks, so that [lower]+
// matches the last character without case.
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
  // A run of lower case letters would have matched above, so only [upper]+ is left to match.
  for (const size_t from : {word, at}) {
    if (const size_t end = t.run(from, kUpper); end > from) return t.contraction(end, true);
  }
  if (const size_t end = t.run(at, kNumber, 3); end > at) return end;
  if (const size_t end = symbols_end(t, at, true); end > at) return end;
  return t.white_space(at, true, false);
}

// Bit masks of the character classes in up to 64 bytes of a text, beginning at a piece. Bit i of each mask
// belongs to byte i. All bytes of a character have the same class bits.
struct SplitWindow {
  size_t begin;    // position of the window in the text
  uint64_t valid;  // bits of the bytes that are in the window, which are the lowest bits
  uint64_t letter = 0, number = 0, space = 0, newline = 0, blank = 0, apostrophe = 0;
  uint64_t inside = 0;                       // bytes of characters other than the first byte of each
  uint64_t upper = 0, lower = 0, slash = 0;  // only set if case matters; lower includes caseless letters

  uint64_t other() const { return valid & ~(letter | number | space); }
};

// Returns the window that begins at byte `begin` < size of the text. The window ends before the first
// character that only split_end can handle, which is non-ASCII white space or a non-ASCII number. If `cased`
// is true, split_end must also handle marks that do not follow a letter, and capitals after letters without
// case.
SplitWindow split_window(const SplitText& t, size_t begin, bool cased);

// Updates the piece starts for the contractions that begin at the apostrophes in `from`. If `to_word` is
// true, a contraction belongs to the piece before it. Otherwise, the contraction is a separate piece.
inline uint64_t with_contractions(const SplitText& t, const SplitWindow& w, uint64_t starts, uint64_t from,
                                  bool fold, bool to_word) {
  for (size_t behind = 0; from != 0; from &= from - 1) {
    const auto at = static_cast<size_t>(std::countr_zero(from));
    const size_t end = t.contraction(w.begin + at, fold) - w.begin;
    if (end == at || (to_word && at == behind)) continue;
    const uint64_t pattern = to_word ? 7 : 6;  // the bits from `at` to `end`
    starts &= ~((end - at == 2 ? pattern & 3 : pattern) << at);
    if (end < 64) starts |= uint64_t{1} << end;
    behind = end;
  }
  return starts;
}

// Returns the start of each run of white space. If the last character of a run may belong to the next piece,
// its position is returned too.
inline uint64_t space_starts(const SplitWindow& w, uint64_t space, uint64_t may_stay) {
  return (space & ~(space << 1)) | (may_stay & ~(w.space >> 1) & (w.valid >> 1));
}

inline uint64_t gpt2_starts(const SplitText& t, const SplitWindow& w) {
  const uint64_t other = w.other(), behind_blank = w.blank << 1;
  const uint64_t symbols = other & ~(other << 1) & ~behind_blank;
  const uint64_t words = (w.letter & ~(w.letter << 1)) | (w.number & ~(w.number << 1));
  const uint64_t starts = symbols | (words & ~behind_blank) | space_starts(w, w.space, w.space);
  return with_contractions(t, w, starts, symbols & w.apostrophe, false, false);
}

// Returns the start of each group of `digits` digits in a number.
inline uint64_t number_starts(uint64_t number, size_t digits) {
  uint64_t inside = number << 1;  // positions that follow at least `digits` digits of the same number
  for (size_t i = 1; i < digits; ++i)
    inside &= number << (i + 1);
  uint64_t starts = number & ~(number << 1);
  for (uint64_t next = starts; next != 0; starts |= next)
    next = (next << digits) & number & inside;
  return starts;
}

// Returns the start of the white space that follows the last newline in each run of `space`. `newline` is a
// subset of `space`.
inline uint64_t behind_last_newlines(uint64_t space, uint64_t newline) {
  const uint64_t line = space & ~newline;
  uint64_t starts = line & (newline << 1);
  const uint64_t ends = (line + starts) & ~line;
  for (uint64_t more = ends & newline; more != 0; more &= more - 1) {
    const uint64_t before = starts & ((more & -more) - 1);
    starts &= ~std::bit_floor(before);
  }
  return starts;
}

// Extends each bit of `from` to the end of the run of bits in `runs` that contains it. `from` is a subset of
// `runs`. The carry of an addition passes through each run of bits.
inline uint64_t with_following(uint64_t from, uint64_t runs) {
  return (((runs + from) ^ runs) | from) & runs;
}

inline uint64_t gpt4_starts(const SplitText& t, const SplitWindow& w, size_t digits, bool cased) {
  // Newlines after symbols belong to the symbols, and so do slashes after these newlines.
  const uint64_t taken = with_following((w.other() << 1) & w.newline, w.newline | w.slash);
  const uint64_t other = w.other() & ~taken, symbols = other & ~(other << 1) & ~(w.blank << 1);
  const uint64_t space = w.space & ~taken, newline = w.newline & ~taken, gap = space & ~newline;
  const uint64_t before_word = gap | symbols | with_following((symbols << 1) & w.inside, w.inside);
  uint64_t starts = symbols | number_starts(w.number, digits) | space_starts(w, space, gap) |
                    behind_last_newlines(space, newline) | (w.letter & ~((w.letter | before_word) << 1));
  if (!cased) return with_contractions(t, w, starts, symbols & w.apostrophe, true, false);
  starts |= w.upper & (w.lower << 1);
  return with_contractions(t, w, starts, w.apostrophe & (w.letter << 1), true, true);
}

// Returns the bits of `starts` that do not depend on the text after the window. Bits inside the white space
// at the end of the window do depend on this text.
inline uint64_t certain_starts(const SplitWindow& w, uint64_t starts) {
  const uint64_t before = w.valid & ~w.space;
  const uint64_t first_of_space = before == 0 ? 1 : std::bit_floor(before) << 1;
  return starts & w.valid & (first_of_space | (first_of_space - 1));
}

// Calls use(piece) for every piece of a text, in order. starts(window) returns the piece starts in a window.
// end(at) returns the end of the piece that begins at `at`, and is only called for pieces that extend beyond
// the window.
template <class Starts, class End, class Use>
void split_in_windows(const SplitText& t, bool cased, Starts&& starts, End&& end, Use&& use) {
  const std::string_view text = t.text();
  for (size_t at = 0; at < text.size();) {
    const SplitWindow window = split_window(t, at, cased);
    uint64_t bits = certain_starts(window, starts(window)) & ~uint64_t{1};
    if (bits == 0) {
      const size_t next = end(at);
      use(text.substr(at, next - at));
      at = next;
    }
    for (; bits != 0; bits &= bits - 1) {
      const size_t next = window.begin + static_cast<size_t>(std::countr_zero(bits));
      use(text.substr(at, next - at));
      at = next;
    }
  }
}

// Calls use(starts, end, cased) with the functions of a pattern, which are the arguments of split_in_windows.
template <class Use>
auto with_split(SplitPattern pattern, const SplitText& t, Use&& use) {
  const auto gpt4 = [&](size_t digits, bool whole_at_end) {
    return use([&t, digits](const SplitWindow& w) { return gpt4_starts(t, w, digits, false); },
               [&t, digits, whole_at_end](size_t at) { return gpt4_end(t, at, digits, whole_at_end); },
               false);
  };
  switch (pattern) {
    case SplitPattern::gpt2:
      return use([&t](const SplitWindow& w) { return gpt2_starts(t, w); },
                 [&t](size_t at) { return gpt2_end(t, at); }, false);
    case SplitPattern::cl100k:
      return gpt4(3, true);
    case SplitPattern::llama3:
      return gpt4(3, false);
    case SplitPattern::nanochat:
      return gpt4(2, false);
    case SplitPattern::qwen2:
      return gpt4(1, false);
    case SplitPattern::o200k:
      break;
  }
  return use([&t](const SplitWindow& w) { return gpt4_starts(t, w, 3, true); },
             [&t](size_t at) { return o200k_end(t, at); }, true);
}

// Calls use(piece) for every piece of a text, in order.
template <class Use>
void split_all(SplitPattern pattern, std::string_view text, Use&& use) {
  const SplitText t(text);
  with_split(pattern, t,
             [&](auto starts, auto end, bool cased) { split_in_windows(t, cased, starts, end, use); });
}

}  // namespace gpt::detail
