#include "text/split_scan.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
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

using Bytes = uint8_t __attribute__((vector_size(16)));

// Returns the highest bit of every byte.
uint64_t high_bits(Bytes bytes) {
#ifdef __SSE2__
  return static_cast<uint64_t>(_mm_movemask_epi8(reinterpret_cast<__m128i>(bytes)));
#else
  uint64_t bits = 0;
  for (size_t i = 0; i < sizeof bytes; ++i)
    bits |= uint64_t{bytes[i]} >> 7 << i;
  return bits;
#endif
}

constexpr size_t kWindow = 64;
struct Block {
  Bytes part[4];
};

template <class Test>
uint64_t bits_of(const Block& block, Test&& test) {
  uint64_t bits = 0;
  for (size_t i = 0; i < std::size(block.part); ++i)
    bits |= high_bits(reinterpret_cast<Bytes>(test(block.part[i]))) << (sizeof(Bytes) * i);
  return bits;
}

void find_ascii(const Block& block, bool cased, SplitWindow& w) {
  const auto is = [&](uint8_t byte) { return bits_of(block, [=](Bytes b) { return b == byte; }); };
  w.letter = bits_of(block, [](Bytes b) { return ((b | 0x20) - 'a') < 26; });
  w.number = bits_of(block, [](Bytes b) { return (b - '0') < 10; });
  w.blank = is(' ');
  w.space = w.blank | bits_of(block, [](Bytes b) { return (b - '\t') < 5; });
  w.newline = bits_of(block, [](Bytes b) { return (b == '\n') | (b == '\r'); });
  w.apostrophe = is('\'');
  if (!cased) return;
  w.upper = bits_of(block, [](Bytes b) { return (b - 'A') < 26; });
  w.lower = w.letter & ~w.upper;
  w.slash = is('/');
}

uint64_t first_bits(size_t n) {
  return n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// Classifies non-ASCII characters. `bytes` has a bit for each byte of these characters, and must not be 0.
// Returns the index of the first byte that split_end must handle, or kWindow if there is no such byte.
template <bool kCased>
size_t find_beyond_ascii(const SplitText& t, uint64_t bytes, SplitWindow& w) {
  uint64_t starts = 0, caseless = 0;
  size_t end = kWindow;
  for (auto at = static_cast<size_t>(std::countr_zero(bytes)); at < kWindow;) {
    const SplitText::Char c = t.beyond_ascii(w.begin + at);
    const bool in_word = kCased && (c.bits & (kUpper | kLower)) != 0;  // marks also count as part of a word
    const bool behind_letter = at > 0 && (w.letter >> (at - 1) & 1) != 0;
    const bool alone = in_word && (c.bits & kLetter) == 0 && !behind_letter;
    if (at + c.length > kWindow || alone || (c.bits & (kSpace | kNumber)) != 0) {
      end = at;
      break;
    }
    const uint64_t bits = ((uint64_t{1} << c.length) - 1) << at;
    const auto where = [bits](bool is) { return is ? bits : 0; };
    starts |= uint64_t{1} << at;
    w.letter |= where(in_word || (c.bits & kLetter) != 0);
    if (kCased) {
      const bool lower = in_word && (c.bits & kLower) != 0, upper = in_word && (c.bits & kUpper) != 0;
      w.lower |= where(lower);
      w.upper |= where(upper && !lower);
      caseless |= where(upper && lower);
    }
    at += c.length;
    if (at < kWindow && (bytes >> at & 1) == 0)
      at = static_cast<size_t>(std::countr_zero(bytes & ~first_bits(at)));
  }
  w.inside = bytes & ~starts;  // only valid up to `end`
  const uint64_t capitals = w.upper & (caseless << 1);
  return std::min(end, static_cast<size_t>(std::countr_zero(capitals)));
}

}  // namespace

SplitWindow split_window(const SplitText& t, size_t begin, bool cased) {
  Block block{};
  const size_t size = std::min(t.text().size() - begin, kWindow);
  const char* const bytes = t.text().data() + begin;
  if (size == kWindow) {
    std::memcpy(&block, bytes, kWindow);
  } else {
    std::memcpy(&block, bytes, size);
  }
  SplitWindow w{.begin = begin, .valid = first_bits(size)};
  find_ascii(block, cased, w);
  const uint64_t beyond = bits_of(block, [](Bytes b) { return b; });
  if (beyond != 0) {
    const size_t end = cased ? find_beyond_ascii<true>(t, beyond, w) : find_beyond_ascii<false>(t, beyond, w);
    w.valid &= first_bits(end);
  }
  for (uint64_t* const bits :
       {&w.letter, &w.number, &w.space, &w.newline, &w.blank, &w.apostrophe, &w.inside})
    *bits &= w.valid;
  w.upper &= w.valid, w.lower &= w.valid, w.slash &= w.valid;
  return w;
}

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
