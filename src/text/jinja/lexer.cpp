#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/error.h"
#include "base/utf8.h"
#include "text/jinja/python_text.h"

namespace gpt::jinja {
namespace {

constexpr size_t kMostTokens = size_t{1} << 20;

// Converts line ends to "\n". Drops the last line end unless keep_trailing_newline is true.
std::string normalized(std::string_view source, bool keep_trailing_newline) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (!keep_trailing_newline && out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}
bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

class Lexer {
 public:
  Lexer(std::string_view source, const JinjaOptions& options)
      : options_(options), source_(normalized(source, options.keep_trailing_newline)) {}

  std::vector<Token> run() {
    while (at_ < source_.size())
      outside();
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view text) const {
    return std::string_view(source_).substr(std::min(at_, source_.size())).starts_with(text);
  }

  void advance(size_t n) {
    const std::string_view passed = std::string_view(source_).substr(at_, n);
    line_ += static_cast<int>(std::ranges::count(passed, '\n'));
    if (!passed.empty()) line_starting_ = passed.back() == '\n';
    at_ += n;
  }
  void skip_blanks() {
    while (at_ < source_.size() && is_blank(source_[at_]))
      advance(1);
  }
  // Skips all white space after "-%}", including Unicode white space.
  void skip_white_space() {
    const std::string_view rest = std::string_view(source_).substr(at_);
    advance(rest.size() - python_strip(rest, true, false).size());
  }

  void add(TokenKind kind, std::string text) {
    if (tokens_.size() >= kMostTokens) fail("line {}: the template has too many tokens", line_);
    tokens_.push_back({kind, std::move(text), line_});
  }

  // Returns the text before a tag, without the white space that the tag removes. The sign "-" removes all
  // white space at the end of the text. With lstrip_blocks, the spaces before the tag in the same line are
  // removed.
  std::string before_tag(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return std::string(python_strip(text, false, true));
    if (sign == '+' || !options_.lstrip_blocks || variable) return std::string(text);
    const size_t newline = text.rfind('\n');
    const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
    const bool blank = python_strip(text.substr(begin), true, true).empty();
    return std::string(blank && (begin > 0 || line_starting_) ? text.substr(0, begin) : text);
  }

  size_t next_tag() const {
    for (size_t i = source_.find('{', at_); i != std::string::npos; i = source_.find('{', i + 1)) {
      const char c = i + 1 < source_.size() ? source_[i + 1] : '\0';
      if (c == '{' || c == '%' || c == '#') return i;
    }
    return source_.size();
  }

  void outside() {
    const size_t tag = next_tag();
    const std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (tag == source_.size()) {
      add(TokenKind::data, std::string(text));
      advance(text.size());
      return;
    }
    const char kind = source_[tag + 1], sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    std::string written = before_tag(text, sign, kind == '{');
    if (!written.empty()) add(TokenKind::data, std::move(written));
    advance(text.size());
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') return comment();
    if (kind == '%' && is_raw_begin()) return raw();
    tag_inside(kind == '{');
  }

  // Reads the end of a block or comment, and skips the white space that this end removes.
  bool take_end(std::string_view close) {
    const bool strips = peek() == '-', keeps = peek() == '+';
    if (!std::string_view(source_)
             .substr(std::min(source_.size(), at_ + (strips || keeps ? 1 : 0)))
             .starts_with(close))
      return false;
    advance(close.size() + (strips || keeps ? 1 : 0));
    if (strips) skip_white_space();
    if (!strips && !keeps && options_.trim_blocks && peek() == '\n') advance(1);
    return true;
  }

  void comment() {
    const int begin = line_;
    size_t end = source_.find("#}", at_);
    if (end == std::string::npos) fail("line {}: unterminated comment", begin);
    if (end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+')) --end;
    advance(end - at_);
    take_end("#}");
  }

  // Reads the rest of a {% raw %} tag after "{%". A "-" is allowed before the "%}".
  bool is_raw_begin() {
    const size_t start = at_;
    size_t i = at_;
    const auto blanks = [&] {
      while (i < source_.size() && is_blank(source_[i]))
        ++i;
    };
    blanks();
    if (source_.compare(i, 3, "raw") != 0) return false;
    i += 3;
    blanks();
    const bool strips = i < source_.size() && source_[i] == '-';
    if (source_.compare(i + (strips ? 1 : 0), 2, "%}") != 0) return false;
    advance(i + (strips ? 3 : 2) - start);
    if (strips) skip_white_space();
    return true;
  }

  void raw() {
    const int begin = line_;
    for (size_t open = source_.find("{%", at_); open != std::string::npos;
         open = source_.find("{%", open + 1)) {
      size_t i = open + 2;
      const char sign = i < source_.size() ? source_[i] : '\0';
      if (sign == '-' || sign == '+') ++i;
      while (i < source_.size() && is_blank(source_[i]))
        ++i;
      if (source_.compare(i, 6, "endraw") != 0) continue;
      i += 6;
      while (i < source_.size() && is_blank(source_[i]))
        ++i;
      std::string text = before_tag(std::string_view(source_).substr(at_, open - at_), sign, false);
      if (!text.empty()) add(TokenKind::data, std::move(text));
      advance(i - at_);
      if (!take_end("%}")) fail("line {}: expected %}} after endraw", line_);
      return;
    }
    fail("line {}: raw block without endraw", begin);
  }

  void tag_inside(bool variable) {
    const int begin = line_;
    add(variable ? TokenKind::variable_begin : TokenKind::block_begin, "");
    closers_.clear();
    while (true) {
      if (closers_.empty() && (variable ? take_variable_end() : take_block_end())) return;
      skip_blanks();
      if (at_ >= source_.size()) fail("line {}: unterminated tag", begin);
      if (closers_.empty() && (variable ? take_variable_end() : take_block_end())) return;
      token();
    }
  }
  bool take_block_end() {
    const int line = line_;
    if (!take_end("%}")) return false;
    tokens_.push_back({TokenKind::block_end, "", line});
    return true;
  }
  bool take_variable_end() {
    const bool strips = starts_with("-}}");
    if (!strips && !starts_with("}}")) return false;
    add(TokenKind::variable_end, "");
    advance(strips ? 3 : 2);
    if (strips) skip_white_space();
    return true;
  }

  void token() {
    const char c = peek();
    if (is_digit(c)) return number();
    if (is_name_char(c)) {
      size_t n = 1;
      while (is_name_char(peek(n)))
        ++n;
      add(TokenKind::name, source_.substr(at_, n));
      return advance(n);
    }
    if (c == '\'' || c == '"') return string(c);
    op();
  }

  // Reads digits that may have single underscores between them. Returns the digits without underscores, or ""
  // if there are no digits.
  std::string digits(size_t& n, const char* allowed) const {
    std::string out;
    while (true) {
      const char c = peek(n), next = peek(n + 1);
      const auto is_allowed = [&](char d) {
        return d != '\0' && std::string_view(allowed).find(d) != std::string_view::npos;
      };
      if (is_allowed(c)) {
        out += c;
        ++n;
      } else if (c == '_' && !out.empty() && is_allowed(next)) {
        ++n;
      } else {
        return out;
      }
    }
  }

  void number() {
    constexpr const char* kDigits = "0123456789";
    const char base = static_cast<char>(std::tolower(static_cast<unsigned char>(peek(1))));
    if (peek() == '0' && (base == 'x' || base == 'o' || base == 'b'))
      fail_unsupported("line {}: numbers in base 2, 8 or 16 are not supported; write them in base 10", line_);
    size_t n = 0;
    std::string text = digits(n, kDigits);
    TokenKind kind = TokenKind::integer;
    if (peek(n) == '.' && is_digit(peek(n + 1)) && !after_dot()) {
      kind = TokenKind::real;
      ++n;
      text += '.' + digits(n, kDigits);
    }
    const size_t sign = peek(n + 1) == '+' || peek(n + 1) == '-' ? 1 : 0;
    if ((peek(n) == 'e' || peek(n) == 'E') && is_digit(peek(n + 1 + sign)) && !after_dot()) {
      kind = TokenKind::real;
      text += 'e' + source_.substr(at_ + n + 1, sign);
      n += 1 + sign;
      text += digits(n, kDigits);
    }
    if (kind == TokenKind::integer && text.size() > 1 && text[0] == '0' &&
        text.find_first_not_of('0') != std::string::npos)
      fail("line {}: the number {} begins with 0", line_, text.substr(0, 32));
    add(kind, text);
    advance(n);
  }
  bool after_dot() const { return at_ > 0 && source_[at_ - 1] == '.'; }

  void string(char quote) {
    const int line = line_;
    std::string out;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote;) {
      if (source_[i] != '\\') {
        out += source_[i++];
      } else {
        i = escape(i + 1, out);
      }
    }
    if (i >= source_.size()) fail("line {}: unterminated string", line);
    add(TokenKind::string, std::move(out));
    advance(i + 1 - at_);
  }

  // Decodes an escape sequence like Python's unicode-escape. `i` is the position after the backslash. Returns
  // the end of the escape sequence.
  size_t escape(size_t i, std::string& out) {
    constexpr std::string_view kNames = "ntrabfv0\\'\"", kMeaning = "\n\t\r\a\b\f\v\0\\'\"";
    if (i >= source_.size()) return i;
    const char c = source_[i];
    if (c == 'x' || c == 'u' || c == 'U')
      return code_point(i + 1, c == 'x' ? 2 : (c == 'u' ? 4 : 8), 16, out);
    if (c >= '0' && c <= '7') {
      size_t n = 1;
      while (n < 3 && i + n < source_.size() && source_[i + n] >= '0' && source_[i + n] <= '7')
        ++n;
      return code_point(i, n, 8, out);
    }
    if (c == 'N')
      fail_unsupported("line {}: the escape sequence \\N is not supported; write the character itself",
                       line_);
    if (c == '\n') return i + 1;
    const size_t known = kNames.find(c);
    if (known == std::string_view::npos) {
      out += '\\';
      out += c;
    } else {
      out += kMeaning[known];
    }
    return i + 1;
  }
  size_t code_point(size_t i, size_t digits, int base, std::string& out) {
    const std::string text = source_.substr(i, digits);
    char* stop = nullptr;
    const unsigned long code = text.size() == digits ? std::strtoul(text.c_str(), &stop, base) : 0;
    if (stop != text.c_str() + digits || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ||
        std::isalnum(static_cast<unsigned char>(text[0])) == 0)
      fail("line {}: expected a character code of {} digits after \\, found \"{}\"", line_, digits,
           printable_text(text, 16));
    append_utf8(out, static_cast<char32_t>(code));
    return i + digits;
  }

  void op() {
    constexpr std::array<std::string_view, 26> kOps = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                       "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                       ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};
    const auto* found = std::ranges::find_if(kOps, [&](std::string_view op) { return starts_with(op); });
    if (found == kOps.end())
      fail("line {}: unexpected character \"{}\"", line_, printable_text(source_.substr(at_, 4), 1));
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') closers_ += c == '(' ? ')' : (c == '[' ? ']' : '}');
    if (c == ')' || c == ']' || c == '}') {
      if (closers_.empty() || closers_.back() != c)
        fail("line {}: unexpected \"{}\"{}", line_, c,
             closers_.empty() ? "" : std::string(", expected \"") + closers_.back() + '"');
      closers_.pop_back();
    }
    add(TokenKind::op, std::string(*found));
    advance(found->size());
  }

  const JinjaOptions& options_;
  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string closers_;  // closing brackets for all open brackets
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view source, const JinjaOptions& options) {
  return Lexer(source, options).run();
}

}  // namespace gpt::jinja
