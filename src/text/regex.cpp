#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace gpt::detail {
namespace {

// Limits for a single match. A match within these limits takes at most about a second. Any reasonable pattern
// takes far less time. kHeapLimit is in KiB.
constexpr uint32_t kMatchLimit = 20'000'000, kDepthLimit = 1'000'000, kHeapLimit = 65536;
constexpr size_t kJitStack = size_t{1} << 20;

template <auto free>
struct Free {
  void operator()(auto* p) const { free(p); }
};
using CodePtr = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using MatchPtr = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;

std::string error_text(int error) {
  PCRE2_UCHAR message[200];
  pcre2_get_error_message(error, message, sizeof message);
  return reinterpret_cast<const char*>(message);
}

CodePtr compile(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  const std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>> context(
      pcre2_compile_context_create(nullptr));
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  // In Oniguruma, $ and ^ match at the ends of lines.
  const uint32_t options =
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
  CodePtr code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), options, &error,
                             &offset, context.get()));
  if (code == nullptr) {
    fail("the regular expression \"{}\" is not valid at byte {}: {}", printable_text(pattern, 80), offset,
         error_text(error));
  }
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // if JIT compilation fails, matching is only slower
  return code;
}

// Replaces characters that PCRE2 and unicode.h classify differently, because the two use different versions
// of Unicode. The replacement is a nearby character with the same category and the same length in UTF-8, so
// that byte positions do not change.
class StandIns {
 public:
  StandIns() {
    std::array<std::vector<char32_t>, 30> by_category;
    for (char32_t code = 0x80; code < 0x110000; ++code) {
      const Category c = category(code);
      if (c != Category::Cs) by_category[static_cast<size_t>(c)].push_back(code);
    }
    std::vector<bool> wrong(0x110000, false);
    for (size_t c = 0; c < by_category.size(); ++c)
      find_wrong(kNames[c], by_category[c], wrong);
    wrong[0x180E] = true;  // PCRE2 and old versions of Unicode classify U+180E as white space
    for (char32_t code = 0x80; code < 0x110000; ++code) {
      if (wrong[code]) codes_.push_back({code, nearest(code, wrong)});
    }
  }

  // Returns the text to search, which is `text` itself if no character must be replaced.
  std::string_view searched(std::string_view text, std::string& copy) const {
    bool same = true;
    for (size_t at = 0; at < text.size();) {
      if (static_cast<unsigned char>(text[at]) < 0x80) {
        ++at;
        continue;
      }
      const Utf8Char c = decode_utf8(text, at);
      const bool valid = c.status == Utf8Status::valid;
      const char32_t stand_in = valid ? of(c.code) : 1;
      if (same && (!valid || stand_in != c.code)) copy = text, same = false;
      if (!valid) copy.replace(at, 1, 1, '\x01');
      if (valid && stand_in != c.code) {
        std::string bytes;
        append_utf8(bytes, stand_in);
        copy.replace(at, bytes.size(), bytes);
      }
      at += static_cast<size_t>(valid ? c.length : 1);
    }
    return same ? text : std::string_view(copy);
  }

 private:
  static constexpr const char* kNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                           "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                           "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
  struct StandIn {
    char32_t code, instead;
  };

  static void find_wrong(const std::string& name, const std::vector<char32_t>& codes,
                         std::vector<bool>& wrong) {
    if (codes.empty()) return;
    std::string all;
    for (const char32_t code : codes)
      append_utf8(all, code);
    const CodePtr code = compile("\\P{" + name + "}");
    const MatchPtr match(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    if (match == nullptr) throw std::bad_alloc();
    for (size_t at = 0; pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(all.data()), all.size(), at,
                                    PCRE2_NO_UTF_CHECK, match.get(), nullptr) > 0;
         at = pcre2_get_ovector_pointer(match.get())[1]) {
      wrong[decode_utf8(all, pcre2_get_ovector_pointer(match.get())[0]).code] = true;
    }
  }

  static size_t length_of(char32_t code) { return code < 0x800 ? 2 : code < 0x10000 ? 3 : 4; }

  static char32_t nearest(char32_t code, const std::vector<bool>& wrong) {
    const auto fits = [&](int64_t other) {
      if (other < 0x80 || other >= 0x110000) return false;
      const auto c = static_cast<char32_t>(other);
      return !wrong[c] && length_of(c) == length_of(code) && category(c) == category(code);
    };
    for (int64_t distance = 1; distance < 0x20000; ++distance) {
      if (fits(int64_t{code} - distance)) return static_cast<char32_t>(code - distance);
      if (fits(int64_t{code} + distance)) return static_cast<char32_t>(code + distance);
    }
    return code;
  }

  char32_t of(char32_t code) const {
    const auto found = std::ranges::lower_bound(codes_, code, {}, &StandIn::code);
    return found != codes_.end() && found->code == code ? found->instead : code;
  }

  std::vector<StandIn> codes_;  // sorted
};

const StandIns& stand_ins() {
  static const StandIns all;
  return all;
}

// Translates a pattern from Oniguruma's syntax to PCRE2's syntax. Only supports the syntax that tokenizers
// use. Throws Error for other syntax, because a different meaning would change token ids.
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
    fail_unsupported("the regular expression has \"{}\" at byte {}, which is not supported",
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

  // Copies {n}, {n,} and {n,m}, and the lazy forms {n,}? and {n,m}?. Rejects {n}+ and {n}?, because their
  // meaning differs: in Oniguruma, {n}+ repeats {n} and {n}? makes {n} optional. In PCRE2, {n}+ is possessive
  // and {n}? is lazy.
  void interval() {
    const size_t end = in_.find('}', at_);
    if (end == std::string_view::npos) unsupported(2);
    const std::string_view inside = in_.substr(at_ + 1, end - at_ - 1);
    const size_t comma = inside.find(',');
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() < 5 && std::ranges::all_of(text, is_ascii_digit);
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
      // Rejects \x80 to \xFF, which would match parts of UTF-8 characters.
      if (at_ + 2 >= in_.size() || in_[at_ + 2] > '7') unsupported(4);
      return hexadecimal(2, 2);
    }
    if (c == 'v') {
      out_ += "\\x0B";
      at_ += 2;
      return;
    }
    const bool letter = is_ascii_alnum(c);
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

  // General categories have the same meaning in Oniguruma and PCRE2. A script name refers to the property
  // Script.
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

  // Translates a character set after its '['. A nested set adds its characters to the outer set, so PCRE2
  // needs no inner brackets.
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

struct Regex::Code {
  CodePtr code;
};

Regex::Regex(const std::string& pattern)
    : code_(std::make_unique<Code>(Code{compile(pcre2_pattern(pattern))})) {}
Regex::~Regex() = default;

struct Regex::Search::State {
  explicit State(const pcre2_code* c)
      : code(c),
        match(pcre2_match_data_create_from_pattern(c, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(32768, kJitStack, nullptr)) {
    if (match == nullptr || context == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_depth_limit(context.get(), kDepthLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimit);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }

  const pcre2_code* code;
  MatchPtr match;
  std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>> context;
  std::unique_ptr<pcre2_jit_stack, Free<pcre2_jit_stack_free>> stack;
  std::string copy;
  std::string_view text;
  size_t at = 0;                   // position at which the search continues; past the end: finished
  std::optional<size_t> last_end;  // end of the previous match

  void skip_character() { at += at < text.size() ? static_cast<size_t>(decode_utf8(text, at).length) : 1; }
};

Regex::Search::Search(const Regex& regex) : state_(std::make_unique<State>(regex.code_->code.get())) {}
Regex::Search::~Search() = default;

void Regex::Search::begin(std::string_view text) {
  state_->text = stand_ins().searched(text, state_->copy);
  state_->at = 0;
  state_->last_end.reset();
}

std::optional<std::pair<size_t, size_t>> Regex::Search::next() {
  State& s = *state_;
  while (s.at <= s.text.size()) {
    const int found = pcre2_match(s.code, reinterpret_cast<PCRE2_SPTR>(s.text.data()), s.text.size(), s.at,
                                  PCRE2_NO_UTF_CHECK, s.match.get(), s.context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      fail("matching the regular expression at byte {} takes too long: {}", s.at, error_text(found));
    const PCRE2_SIZE* const place = pcre2_get_ovector_pointer(s.match.get());
    const size_t begin = place[0], end = place[1];
    if (begin == end && s.last_end == end) {
      s.skip_character();
      continue;
    }
    s.at = end;
    s.last_end = end;
    return std::pair(begin, end);
  }
  s.at = s.text.size() + 1;
  return std::nullopt;
}

std::string pcre2_pattern(std::string_view pattern) {
  if (pattern.size() > 16384)
    fail("the regular expression has {} bytes; expected at most 16384", pattern.size());
  if (const auto at = first_invalid_utf8(pattern))
    fail("the regular expression is not valid UTF-8 at byte {}", *at);
  return Translator(pattern).translate();
}

}  // namespace gpt::detail
