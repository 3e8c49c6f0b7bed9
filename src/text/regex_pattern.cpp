#include <algorithm>

#include "base/error.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace gpt::detail {
namespace {

// Walks over a pattern of Oniguruma and writes one of PCRE2. Known are the parts that tokenizers use;
// everything else is an error, for a difference would be a tokenizer with other ids.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string translate() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        ++at_;
        out_ += '[';
        set(1);
      } else if (c == '(') {
        group();
      } else if (c == '{') {
        interval();
      } else {
        copy(1);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void unsupported(size_t length) const {
    fail("the split pattern has \"{}\" at byte {}, which is not supported",
         printable_text(in_.substr(at_, length), 20), at_);
  }
  void copy(size_t length) {
    if (at_ + length > in_.size()) unsupported(length);
    out_ += in_.substr(at_, length);
    at_ += length;
  }
  bool sees(std::string_view text) const { return in_.substr(at_).starts_with(text); }

  void group() {
    for (const std::string_view open : {"(?:", "(?i:", "(?!", "(?=", "(?<!", "(?<=", "(?>"}) {
      if (sees(open)) return copy(open.size());
    }
    if (sees("(?") || sees("(*")) unsupported(3);
    copy(1);
  }

  // {n}, {n,}, {n,m}, lazy ones too. Oniguruma repeats {n}+ again and makes {n}? optional, which PCRE2 does
  // not.
  void interval() {
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) unsupported(2);
    const std::string_view inside = in_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = inside.find(',');
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() < 5 &&
             std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
    };
    const bool fixed = comma == std::string_view::npos;
    const bool valid = is_number(inside.substr(0, comma)) &&
                       (fixed || comma + 1 == inside.size() || is_number(inside.substr(comma + 1)));
    const char behind = end + 1 < in_.size() ? in_[end + 1] : '\0';
    if (!valid || behind == '+' || (fixed && behind == '?')) unsupported(end - at_ + 2);
    copy(end - at_ + 1);
  }

  void escape(bool in_set) {
    if (at_ + 1 >= in_.size()) unsupported(1);
    const char c = in_[at_ + 1];
    if (c == 'p' || c == 'P') return property();
    if (c == 'u') return hexadecimal(2, 4);
    if (c == 'x') {
      if (sees("\\x{")) {
        const size_t end = in_.find('}', at_);
        if (end == std::string_view::npos) unsupported(3);
        return copy(end + 1 - at_);
      }
      // Bytes above ASCII would be parts of characters.
      if (at_ + 2 >= in_.size() || in_[at_ + 2] > '7') unsupported(4);
      return hexadecimal(2, 2);
    }
    if (c == 'v') {
      out_ += "\\x0B";
      at_ += 2;
      return;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const std::string_view known = in_set ? "rntfsSdD" : "rntfsSdDAz";
    if ((letter && known.find(c) == std::string_view::npos) || static_cast<unsigned char>(c) >= 0x80)
      unsupported(2);
    copy(2);
  }

  void hexadecimal(size_t skip, size_t digits) {
    const std::string_view number = in_.substr(std::min(at_ + skip, in_.size()), digits);
    if (number.size() != digits ||
        number.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      unsupported(skip + digits);
    out_ += "\\x{" + std::string(number) + "}";
    at_ += skip + digits;
  }

  // General categories mean the same; scripts are those of the property Script.
  void property() {
    const size_t end = in_.find('}', at_);
    if (!(sees("\\p{") || sees("\\P{")) || end == std::string_view::npos) unsupported(3);
    std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^') != sees("\\P{");
    if (name.starts_with('^')) name.remove_prefix(1);
    const bool category = !name.empty() && name.size() <= 2 &&
                          name.find_first_not_of("LMNPSZCultmoncdepsikf") == std::string_view::npos;
    const bool script = name == "Han" || name == "Hiragana" || name == "Katakana" || name == "Hangul" ||
                        name == "Latin" || name == "Greek" || name == "Cyrillic" || name == "Arabic" ||
                        name == "Hebrew" || name == "Thai" || name == "Devanagari";
    if (!category && !script) unsupported(end - at_ + 1);
    out_ += (negated ? "\\P{" : "\\p{") + std::string(script ? "sc:" : "") + std::string(name) + "}";
    at_ = end + 1;
  }

  // Behind the [ of a set. A set within a set adds its characters, which PCRE2 writes without brackets.
  void set(int depth) {
    bool first = true;
    if (sees("^")) copy(1);
    for (;; first = false) {
      if (at_ >= in_.size() || depth > 4) unsupported(1);
      if (in_[at_] == ']') {
        if (first) unsupported(2);
        ++at_;
        if (--depth > 0) continue;
        out_ += ']';
        return;
      }
      if (sees("&&") || sees("[:") || sees("[^")) unsupported(2);
      if (in_[at_] == '[') {
        ++at_;
        ++depth;
      } else if (in_[at_] == '\\') {
        escape(true);
      } else {
        copy(1);
      }
    }
  }

  std::string_view in_;
  std::string out_;
  size_t at_ = 0;
};

}  // namespace

std::string pcre2_pattern(std::string_view pattern) {
  if (pattern.size() > 16384) fail("the split pattern has {} bytes; expected at most 16384", pattern.size());
  if (first_invalid_utf8(pattern)) fail("the split pattern is not valid UTF-8");
  return Translator(pattern).translate();
}

}  // namespace gpt::detail
