#include "grammar/regex_grammar.h"

#include <optional>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/utf8.h"
#include "grammar/front_ends.h"

namespace gpt::grammar {
namespace {

constexpr char32_t kEnd = 0xFFFFFFFF;

CodePointSet digits() {
  return {'0', '9'};
}

CodePointSet word_characters() {
  CodePointSet set('a', 'z');
  set.add('A', 'Z');
  set.add('0', '9');
  set.add('_', '_');
  return set;
}

// Returns the characters of WhiteSpace and LineTerminator in ECMA-262.
CodePointSet blanks() {
  CodePointSet set('\t', '\r');
  for (const char32_t code : std::u32string_view(U" \u00A0\u1680\u2028\u2029\u202F\u205F\u3000\uFEFF"))
    set.add(code, code);
  set.add(0x2000, 0x200A);
  return set;
}

CodePointSet all_but_line_ends() {
  CodePointSet ends('\n', '\n');
  ends.add('\r', '\r');
  ends.add(0x2028, 0x2029);
  return ends.complement();
}

bool is_one_of(char32_t c, std::string_view characters) {
  return c < 0x80 && characters.find(static_cast<char>(c)) != std::string_view::npos;
}

int hex_value(char32_t c) {
  if (c >= '0' && c <= '9') return static_cast<int>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<int>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<int>(c - 'A') + 10;
  return -1;
}

class RegexParser {
 public:
  RegexParser(Rules& rules, std::string_view pattern, const CharacterForms& forms, PatternRange range,
              const std::string& what)
      : rules_(rules), forms_(forms), range_(range), what_(what) {
    if (pattern.size() > rules.limits().max_text)
      fail("{}: expected at most {} bytes, found {}", what, rules.limits().max_text, pattern.size());
    for (size_t at = 0; at < pattern.size();) {
      const Utf8Char c = decode_utf8(pattern, at);
      if (c.status != Utf8Status::valid)
        fail("{}: expected valid UTF-8, found an invalid sequence at byte {}", what, at);
      text_.push_back(c.code);
      at += static_cast<size_t>(c.length);
    }
  }

  Expr parse() {
    std::vector<Expr> options;
    do {
      options.push_back(top_alternative());
    } while (take('|'));
    if (peek() != kEnd) refuse("unmatched ')'");
    return rules_.choice(options);
  }

 private:
  [[noreturn]] void refuse(const std::string& found) const {
    fail("{}: {} at character {}", what_, found, at_ + 1);
  }
  [[noreturn]] void unsupported(const char* name) const {
    refuse(std::string(name) + " is not supported, found");
  }

  char32_t peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : kEnd; }
  bool take(char32_t c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view text) {
    if (!std::u32string_view(text_).substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  Expr top_alternative() {
    const bool from_begin = take('^') || range_ == PatternRange::whole;
    while (take('^')) {
    }
    std::vector<Expr> parts;
    if (!from_begin) parts.push_back(rules_.any_number(forms_.any()));
    bool to_end = range_ == PatternRange::whole;
    parts.push_back(alternative());
    while (take('$'))
      to_end = true;
    if (peek() != '|' && peek() != kEnd && peek() != ')') unsupported("an anchor in the middle of a pattern");
    if (!to_end) parts.push_back(rules_.any_number(forms_.any()));
    return rules_.sequence(parts);
  }

  // Parses an alternative up to '|', ')', '$' or the end of the pattern.
  Expr alternative() {
    std::vector<Expr> parts;
    while (peek() != '|' && peek() != ')' && peek() != '$' && peek() != kEnd)
      parts.push_back(quantified(atom()));
    return rules_.sequence(parts);
  }

  Expr group() {
    if (take(U"?=") || take(U"?!") || take(U"?<=") || take(U"?<!")) unsupported("lookaround");
    if (take(U"?<") || take(U"?P<")) {
      while (peek() != '>' && peek() != kEnd)
        ++at_;
      if (!take('>')) refuse("missing '>' of a group name");
    } else if (peek() == '?' && !take(U"?:")) {
      unsupported("a group with flags");
    }
    if (++depth_ > rules_.limits().max_nesting)
      fail("{}: expected at most {} levels of nested groups, found more", what_, rules_.limits().max_nesting);
    std::vector<Expr> options;
    do {
      options.push_back(alternative());
    } while (take('|'));
    if (peek() == '$') unsupported("an anchor inside a group");
    if (!take(')')) refuse("missing ')' of a group");
    --depth_;
    return rules_.choice(options);
  }

  Expr atom() {
    const char32_t c = peek();
    if (take('(')) return group();
    if (take('.')) return forms_.one_of(all_but_line_ends());
    if (take('[')) return forms_.one_of(character_class());
    if (c == '^') unsupported("an anchor in the middle of a pattern");
    if (is_one_of(c, "*+?")) refuse("a quantifier with nothing to repeat");
    if (c == '{' && counts()) refuse("a quantifier with nothing to repeat");
    if (take('\\')) return forms_.one_of(escape(false));
    ++at_;
    return forms_.one_of({c, c});
  }

  struct Counts {
    int64_t min, max;  // -1 means no limit
    size_t length;
  };
  // Parses "{m}", "{m,}" or "{m,n}" at the current position. Returns nullopt for any other text after '{',
  // because that text is literal.
  std::optional<Counts> counts() const {
    if (peek(1) == ',' && (peek(2) == '}' || is_ascii_digit(peek(2))))
      refuse("the ambiguous quantifier {,n} (write {0,n})");
    size_t ahead = 1;
    const auto number = [&]() -> std::optional<int64_t> {
      int64_t value = 0;
      const size_t first = ahead;
      for (; is_ascii_digit(peek(ahead)); ++ahead)
        value = std::min<int64_t>(value * 10 + (peek(ahead) - '0'), int64_t{1} << 40);
      return ahead == first ? std::nullopt : std::optional(value);
    };
    const auto min = number();
    if (!min) return std::nullopt;
    std::optional<int64_t> max = min;
    if (peek(ahead) == ',') {
      ++ahead;
      max = number().value_or(-1);
    }
    if (peek(ahead) != '}') return std::nullopt;
    return Counts{*min, *max, ahead + 1};
  }

  Expr quantified(Expr part) {
    int64_t min = 0, max = -1;
    if (take('*')) {
    } else if (take('+')) {
      min = 1;
    } else if (take('?')) {
      max = 1;
    } else if (const auto found = peek() == '{' ? counts() : std::nullopt) {
      if (found->max >= 0 && found->max < found->min) refuse("a quantifier with a minimum above its maximum");
      min = found->min;
      max = found->max;
      at_ += found->length;
    } else {
      return part;
    }
    take('?');  // a lazy quantifier matches the same strings
    if (is_one_of(peek(), "*+?") || (peek() == '{' && counts()))
      refuse("a quantifier after another quantifier");
    return rules_.repeat(part, min, max, what_ + ": quantifier");
  }

  CodePointSet character_class() {
    const bool negated = take('^');
    if (peek() == ']') refuse("an ambiguous ']' at the beginning of a class (write \\])");
    CodePointSet set;
    while (!take(']')) {
      if (peek() == kEnd) refuse("missing ']' of a class");
      check_class_syntax();
      const CodePointSet first = class_member();
      if (peek() != '-' || peek(1) == ']' || peek(1) == kEnd) {
        set.add(first);
        continue;
      }
      ++at_;
      const CodePointSet last = class_member();
      const auto single = [](const CodePointSet& s) {
        return s.ranges().size() == 1 && s.ranges()[0].first == s.ranges()[0].last;
      };
      if (!single(first) || !single(last) || first.ranges()[0].first > last.ranges()[0].first)
        refuse("an invalid range in a class");
      set.add(first.ranges()[0].first, last.ranges()[0].first);
    }
    return negated ? set.complement() : set;
  }

  // Rejects class syntax that some regex dialects read as a nested class or a set operation, and other
  // dialects read as literal characters.
  void check_class_syntax() const {
    for (const std::u32string_view syntax : {U"[:", U"[.", U"[=", U"&&", U"~~", U"||"}) {
      if (std::u32string_view(text_).substr(at_).starts_with(syntax))
        refuse("class syntax such as [:name:] or && is not supported, found");
    }
  }

  CodePointSet class_member() {
    if (peek() == kEnd) refuse("missing ']' of a class");
    if (take('\\')) return escape(true);
    const char32_t c = text_[at_++];
    return {c, c};
  }

  char32_t hex(int length) {
    char32_t value = 0;
    for (int i = 0; i < length; ++i) {
      const int digit = hex_value(peek());
      if (digit < 0) refuse("missing hexadecimal digit in an escape");
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    return value;
  }

  // Parses the rest of an escape after "\u".
  char32_t unicode_escape() {
    char32_t code = 0;
    if (take('{')) {
      while (hex_value(peek()) >= 0 && code <= CodePointSet::kLast)
        code = code * 16 + hex(1);
      if (!take('}')) refuse("missing '}' in an escape");
    } else {
      code = hex(4);
      if (code >= 0xD800 && code < 0xDC00 && take(U"\\u")) {
        const char32_t low = hex(4);
        if (low < 0xDC00 || low > 0xDFFF) refuse("an unpaired surrogate");
        return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (code > CodePointSet::kLast || (code >= 0xD800 && code <= 0xDFFF))
      refuse("an escape that is not a Unicode character");
    return code;
  }

  // Parses the rest of an escape after the backslash.
  CodePointSet escape(bool in_class) {
    if (peek() == kEnd) refuse("a trailing backslash");
    const char32_t c = text_[at_++];
    if (c == 'd') return digits();
    if (c == 'D') return digits().complement();
    if (c == 'w') return word_characters();
    if (c == 'W') return word_characters().complement();
    if (c == 's') return blanks();
    if (c == 'S') return blanks().complement();
    if (c == 'p' || c == 'P') unsupported("a Unicode property");
    if (c == 'b' && !in_class) unsupported("a word boundary");
    if (c == 'B') unsupported("a word boundary");
    if ((c >= '1' && c <= '9') || c == 'k') unsupported("a backreference");
    const char32_t code = escaped_character(c);
    return {code, code};
  }

  char32_t escaped_character(char32_t c) {
    constexpr std::string_view kNames = "tnvfrb0", kValues("\t\n\v\f\r\b\0", 7);
    if (is_one_of(c, kNames)) {
      if (c == '0' && peek() >= '0' && peek() <= '9') refuse("an unsupported octal escape");
      return static_cast<char32_t>(kValues[kNames.find(static_cast<char>(c))]);
    }
    if (c == 'x') return hex(2);
    if (c == 'u') return unicode_escape();
    if (c == 'c') {
      const char32_t letter = peek();
      if (!((letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z')))
        refuse("\\c without a letter");
      ++at_;
      return letter % 32;
    }
    if (word_characters().contains(c)) refuse(fmt::format("unknown escape \\{}", static_cast<char>(c)));
    return c;
  }

  Rules& rules_;
  const CharacterForms& forms_;
  PatternRange range_;
  const std::string& what_;
  std::u32string text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr regex_expression(Rules& rules, std::string_view pattern, const CharacterForms& forms, PatternRange range,
                      const std::string& what) {
  return RegexParser(rules, pattern, forms, range, what).parse();
}

RuleId regex_rule(Rules& rules, std::string_view pattern) {
  const CharacterForms forms{[&](const CodePointSet& set) { return rules.code_points(set); },
                             [&] { return rules.code_points(CodePointSet::all()); }};
  const RuleId root = rules.declare("regex");
  rules.define(root, regex_expression(rules, pattern, forms, PatternRange::whole, "regex"));
  return root;
}

}  // namespace gpt::grammar
