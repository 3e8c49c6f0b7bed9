#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/utf8.h"
#include "grammar/front_ends.h"
#include "grammar/rules.h"

namespace gpt::grammar {
namespace {

bool is_name_character(char c) {
  return is_ascii_alnum(c) || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, Rules& rules) : text_(text), rules_(rules) {
    if (text.size() > rules.limits().max_text)
      fail("grammar: expected at most {} bytes, found {}", rules.limits().max_text, text.size());
    if (const auto bad = first_invalid_utf8(text))
      fail("grammar: expected valid UTF-8, found an invalid sequence at byte {}", *bad);
    if (text.find('\0') != std::string_view::npos) fail("grammar: expected text, found a NUL byte");
  }

  // Parses the grammar and returns the rule `root`.
  RuleId parse() {
    skip_blanks(true);
    while (at_ < text_.size())
      rule();
    if (!ids_.contains("root")) fail("grammar: expected a rule 'root', found none");
    for (const auto& [name, id] : ids_)
      if (rules_.rules()[static_cast<size_t>(id)].body < 0)
        fail("grammar: rule '{}' is used but not defined", name);
    return ids_.at("root");
  }

 private:
  [[noreturn]] void refuse(const std::string& expected) const {
    const std::string_view before = text_.substr(0, at_);
    const auto line = 1 + std::ranges::count(before, '\n');
    const size_t column = before.size() - before.rfind('\n');  // without a newline, rfind returns -1
    const std::string found =
        at_ < text_.size() ? "'" + printable_text(text_.substr(at_, 64), 12) + "'" : "the end of the grammar";
    fail("grammar: line {}, byte {}: expected {}, found {}", line, column, expected, found);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }

  // Skips spaces and comments. If `lines` is true, newlines are skipped too. Newlines are allowed inside
  // groups and in a rule that continues on the next line.
  void skip_blanks(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find_first_of("\r\n", at_), text_.size());
        if (at_ == text_.size()) return;
        --at_;
      } else if (c != ' ' && c != '\t' && !(lines && (c == '\r' || c == '\n'))) {
        return;
      }
    }
  }

  std::string name() {
    const size_t begin = at_;
    while (is_name_character(peek()))
      ++at_;
    if (at_ == begin) refuse("a rule name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  RuleId id_of(const std::string& name) {
    const auto [at, fresh] = ids_.try_emplace(name, -1);
    if (fresh) at->second = rules_.declare(name);
    return at->second;
  }

  void rule() {
    const std::string rule_name = name();
    const RuleId id = id_of(rule_name);
    if (rules_.rules()[static_cast<size_t>(id)].body >= 0)
      fail("grammar: rule '{}' is defined twice", rule_name);
    skip_blanks(false);
    if (!take("::=")) refuse("'::='");
    skip_blanks(true);
    rules_.define(id, alternatives(false));
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r') refuse("the end of the line");
    skip_blanks(true);
  }

  Expr alternatives(bool nested) {
    std::vector<Expr> options{sequence(nested)};
    while (take("|")) {
      skip_blanks(true);
      options.push_back(sequence(nested));
    }
    return rules_.choice(options);
  }

  bool at_item() const {
    return is_name_character(peek()) ||
           (peek() != '\0' && std::string_view("\"[(.<!").find(peek()) != std::string_view::npos);
  }

  Expr sequence(bool nested) {
    std::vector<Expr> parts;
    while (at_item()) {
      Expr part = item();
      while (peek() != '\0' && std::string_view("*+?{").find(peek()) != std::string_view::npos)
        part = repeated(part);
      parts.push_back(part);
      skip_blanks(nested);
    }
    return rules_.sequence(parts);
  }

  Expr item() {
    if (peek() == '"') return literal();
    if (peek() == '[') return rules_.code_points(character_class());
    if (peek() == '<' || peek() == '!')
      refuse("a string, character class, group or rule name (tokens by name are not supported)");
    if (take(".")) return rules_.code_points(CodePointSet::all());
    if (!take("(")) return rules_.call(id_of(name()));
    if (++depth_ > rules_.limits().max_nesting)
      fail("grammar: expected at most {} levels of nested groups, found more", rules_.limits().max_nesting);
    skip_blanks(true);
    const Expr group = alternatives(true);
    if (!take(")")) refuse("')'");
    --depth_;
    return group;
  }

  Expr repeated(Expr part) {
    if (take("*")) return rules_.any_number(part);
    if (take("+")) return rules_.repeat(part, 1, -1, "grammar: repetition count");
    if (take("?")) return rules_.optional(part);
    take("{");
    skip_blanks(false);
    const int64_t min = number();
    int64_t max = min;
    skip_blanks(false);
    if (take(",")) {
      skip_blanks(false);
      max = peek() == '}' ? -1 : number();
      skip_blanks(false);
    }
    if (!take("}")) refuse("'}'");
    if (max >= 0 && max < min)
      fail("grammar: expected repetition counts in ascending order, found {{{},{}}}", min, max);
    return rules_.repeat(part, min, max, "grammar: repetition count");
  }

  int64_t number() {
    int64_t value = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min<int64_t>(value * 10 + (peek() - '0'), int64_t{1} << 40);
    if (at_ == begin) refuse("a number");
    return value;
  }

  Expr literal() {
    take("\"");
    std::string bytes;
    while (!take("\"")) {
      if (peek() == '\0' || peek() == '\n') refuse("'\"' at the end of a string");
      append_utf8(bytes, character());
    }
    return rules_.text(bytes);
  }

  CodePointSet character_class() {
    take("[");
    const bool negated = take("^");
    CodePointSet set;
    while (!take("]")) {
      if (peek() == '\0') refuse("']'");
      const char32_t first = character();
      char32_t last = first;
      if (peek() == '-' && text_.substr(at_ + 1, 1) != "]") {
        take("-");
        if (peek() == '\0') refuse("']'");
        last = character();
        if (last < first) refuse("a character range in ascending order before this position");
      }
      set.add(first, last);
    }
    return negated ? set.complement() : set;
  }

  char32_t character() {
    if (take("\\")) return escaped();
    const Utf8Char c = decode_utf8(text_, at_);
    at_ += static_cast<size_t>(c.length);
    return c.code;
  }

  char32_t escaped() {
    constexpr std::string_view kNames = "trn\\\"[]-^'", kValues = "\t\r\n\\\"[]-^'";
    const char c = peek();
    if (const size_t known = kNames.find(c); c != '\0' && known != std::string_view::npos) {
      ++at_;
      return static_cast<unsigned char>(kValues[known]);
    }
    const size_t length = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (length == 0) refuse("one of the escapes \\t \\r \\n \\\\ \\\" \\[ \\] \\xHH \\uHHHH \\UHHHHHHHH");
    ++at_;
    char32_t code = 0;
    for (size_t i = 0; i < length; ++i, ++at_) {
      const char digit = peek();
      if (!is_name_character(digit) ||
          std::string_view("0123456789abcdefABCDEF").find(digit) == std::string_view::npos)
        refuse("a hexadecimal digit");
      code = code * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
    }
    if (code > CodePointSet::kLast || (code >= 0xD800 && code <= 0xDFFF))
      refuse("an escape of a valid Unicode character before this position");
    return code;
  }

  std::string_view text_;
  Rules& rules_;
  size_t at_ = 0;
  int depth_ = 0;
  std::map<std::string, RuleId> ids_;
};

}  // namespace

// Source: llama.cpp, grammars/README.md.
RuleId gbnf_rule(Rules& rules, std::string_view text) {
  return GbnfParser(text, rules).parse();
}

}  // namespace gpt::grammar
