#include "text/split.h"

#include <array>
#include <memory>

#include "text/unicode.h"
#include "text/utf8.h"

namespace gpt {
namespace {

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

using Classes = std::array<uint8_t, 0x110000>;
const Classes& classes() {
  static const std::unique_ptr<const Classes> all = [] {
    auto t = std::make_unique<Classes>();
    for (char32_t code = 0; code < t->size(); ++code)
      (*t)[code] = class_of(code);
    return t;
  }();
  return *all;
}

// A text with the characters that begin at given bytes.
class Text {
 public:
  explicit Text(std::string_view text) : text_(text), classes_(classes()) {}

  struct Char {
    uint8_t bits = 0;
    uint8_t length = 0;  // 0: the text has ended
  };
  Char at(size_t i) const {
    if (i >= text_.size()) return {};
    const auto byte = static_cast<unsigned char>(text_[i]);
    if (byte < 0x80) return {classes_[byte], 1};
    const Utf8Char c = decode_utf8(text_, i);
    if (c.status != Utf8Status::valid) return {0, 1};
    return {classes_[c.code], static_cast<uint8_t>(c.length)};
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

  std::string_view text_;
  const Classes& classes_;
};

size_t gpt2_end(const Text& t, size_t at) {
  if (const size_t end = t.contraction(at, false); end > at) return end;
  const size_t word = at + (t.is(at, ' ') ? 1 : 0);
  for (const uint8_t bits : {kLetter, kNumber}) {
    if (const size_t end = t.run(word, bits); end > word) return end;
  }
  if (t.is_other(word)) return t.run_of_others(word);
  return t.white_space(at, false, true);
}

// [^\r\n\p{L}\p{N}]? : where what follows it begins; `at` if there is no such character.
size_t behind_prefix(const Text& t, size_t at) {
  const Text::Char c = t.at(at);
  return (c.bits & (kNewline | kLetter | kNumber)) != 0 ? at : at + c.length;
}

//  ?[^\s\p{L}\p{N}]+[\r\n]* : `at` if it does not match.
size_t symbols_end(const Text& t, size_t at, bool slashes) {
  size_t end = at + (t.is(at, ' ') ? 1 : 0);
  if (!t.is_other(end)) return at;
  end = t.run_of_others(end);
  while (t.has(end, kNewline) || (slashes && t.is(end, '/')))
    ++end;
  return end;
}

size_t gpt4_end(const Text& t, size_t at, size_t digits, bool whole_at_end) {
  if (const size_t end = t.contraction(at, true); end > at) return end;
  const size_t word = behind_prefix(t, at);
  if (const size_t end = t.run(word, kLetter); end > word) return end;
  if (const size_t end = t.run(at, kNumber, digits); end > at) return end;
  if (const size_t end = symbols_end(t, at, false); end > at) return end;
  return t.white_space(at, true, whole_at_end);
}

// [upper]*[lower]+ : `at` if it does not match. Characters without case are both, so upper ones give back the
// last of them when no lower one follows.
size_t capitalized_end(const Text& t, size_t at) {
  size_t i = at, behind_caseless = at;
  for (Text::Char c = t.at(i); (c.bits & kUpper) != 0; c = t.at(i)) {
    i += c.length;
    if ((c.bits & kLower) != 0) behind_caseless = i;
  }
  const size_t end = t.run(i, kLower);
  return end > i ? end : behind_caseless;
}

size_t o200k_end(const Text& t, size_t at) {
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

struct GgufName {
  SplitPattern pattern;
  std::string_view name;
};

// The name that we write first.
constexpr GgufName kGgufNames[] = {
    {SplitPattern::gpt2, "gpt-2"},        {SplitPattern::gpt2, ""},
    {SplitPattern::gpt2, "phi-2"},        {SplitPattern::gpt2, "mpt"},
    {SplitPattern::gpt2, "olmo"},         {SplitPattern::llama3, "llama-bpe"},
    {SplitPattern::llama3, "llama3"},     {SplitPattern::llama3, "llama-v3"},
    {SplitPattern::llama3, "dbrx"},       {SplitPattern::llama3, "smaug-bpe"},
    {SplitPattern::o200k, "gpt-4o"},      {SplitPattern::cl100k, "cl100k"},
    {SplitPattern::nanochat, "nanochat"},
};

struct Spelling {
  SplitPattern pattern;
  std::string_view regex;
};

// The publisher's spelling of each pattern first.
constexpr Spelling kSpellings[] = {
    {SplitPattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2, R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::gpt2,
     R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)"},
    {SplitPattern::cl100k,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s)"},
    {SplitPattern::llama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {SplitPattern::llama3,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {SplitPattern::nanochat,
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
    {SplitPattern::o200k,
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

}  // namespace

std::string_view split_regex(SplitPattern pattern) {
  for (const Spelling& s : kSpellings) {
    if (s.pattern == pattern) return s.regex;
  }
  return {};
}

std::optional<SplitPattern> find_split_pattern(std::string_view regex) {
  for (const Spelling& s : kSpellings) {
    if (s.regex == regex) return s.pattern;
  }
  return std::nullopt;
}

std::string_view gguf_name(SplitPattern pattern) {
  for (const GgufName& n : kGgufNames) {
    if (n.pattern == pattern) return n.name;
  }
  return {};
}

std::optional<SplitPattern> pattern_of_gguf_name(std::string_view name) {
  for (const GgufName& n : kGgufNames) {
    if (n.name == name) return n.pattern;
  }
  return std::nullopt;
}

size_t split_end(SplitPattern pattern, std::string_view text, size_t at) {
  const Text t(text);
  switch (pattern) {
    case SplitPattern::gpt2:
      return gpt2_end(t, at);
    case SplitPattern::cl100k:
      return gpt4_end(t, at, 3, true);
    case SplitPattern::llama3:
      return gpt4_end(t, at, 3, false);
    case SplitPattern::nanochat:
      return gpt4_end(t, at, 2, false);
    case SplitPattern::o200k:
      return o200k_end(t, at);
  }
  return text.size();
}

}  // namespace gpt
