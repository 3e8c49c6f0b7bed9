#include "tasks/python_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/utf8.h"
#include "tasks/python_classes.h"

namespace gpt {
namespace {

constexpr int kMaxGroupDepth = 100;
constexpr int64_t kMaxRepeat = 65535;                      // limit of PCRE2
constexpr int64_t kUnbounded = int64_t{1} << 32;           // Python's value for no limit
constexpr std::string_view kVerboseSpace = " \t\n\r\v\f";  // characters that re.VERBOSE skips

struct Flags {
  bool ignore_case = false, multiline = false, dot_all = false, verbose = false, ascii = false;
};

// A part of a pattern in PCRE2 syntax. It matches between `least` and `most` characters.
struct PatternPart {
  enum class Kind { item, anchor, repeat };
  std::string text;
  int64_t least = 0, most = 0;
  Kind kind = Kind::item;
  bool single = false;  // an item that matches one character and can be repeated without a group
};

int64_t times(int64_t width, int64_t count) {
  return width > 0 && count > kUnbounded / width ? kUnbounded : width * count;
}

class PatternTranslator {
 public:
  explicit PatternTranslator(std::string_view pattern) : in_(pattern) {}

  std::string translate() {
    const PatternPart all = alternatives(0);
    if (at_ < in_.size()) refuse("unbalanced parenthesis");
    for (const int64_t group : later_groups_) {
      if (group > groups()) refuse("invalid group reference");
    }
    return all.text;
  }

 private:
  struct Group {
    int64_t least = 0, most = 0;
    bool open = true;
  };

  [[noreturn]] void refuse(std::string_view found) const { fail("at byte {}: {}", at_, found); }

  bool ends() const { return at_ >= in_.size(); }
  char peek() const { return ends() ? '\0' : in_[at_]; }
  bool sees(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  bool take(std::string_view text) {
    if (!sees(text)) return false;
    at_ += text.size();
    return true;
  }
  char next(std::string_view missing) {
    if (ends()) refuse(missing);
    return in_[at_++];
  }
  char32_t next_character() {
    const Utf8Char c = decode_utf8(in_, at_);
    at_ += static_cast<size_t>(c.length);
    return c.code;
  }
  std::string_view digits() {
    const size_t begin = at_;
    while (!ends() && peek() >= '0' && peek() <= '9')
      ++at_;
    return in_.substr(begin, at_ - begin);
  }
  int64_t groups() const { return std::ssize(groups_); }

  PatternPart alternatives(int depth) {
    PatternPart all = sequence(depth, depth == 0);
    while (take("|")) {
      const PatternPart other = sequence(depth, false);
      all.text += "|" + other.text;
      all.least = std::min(all.least, other.least);
      all.most = std::max(all.most, other.most);
    }
    return all;
  }

  // `first` is true if flags for the whole pattern are allowed here.
  PatternPart sequence(int depth, bool first) {
    if (depth > kMaxGroupDepth) refuse(fmt::format("groups nested more than {} levels deep", kMaxGroupDepth));
    std::vector<PatternPart> parts;
    while (!ends() && peek() != '|' && peek() != ')') {
      if (flags_.verbose && skip_space()) continue;
      const char c = peek();
      if (c == '*' || c == '+' || c == '?' || (c == '{' && is_repeat())) {
        repeat(parts);
      } else if (c == '(') {
        if (auto part = group(depth, first && parts.empty())) parts.push_back(std::move(*part));
      } else {
        parts.push_back(item());
      }
    }
    PatternPart all;
    for (const PatternPart& part : parts) {
      all.text += part.text;
      all.least = std::min(all.least + part.least, kUnbounded);
      all.most = std::min(all.most + part.most, kUnbounded);
    }
    return all;
  }

  bool skip_space() {
    if (kVerboseSpace.find(peek()) != std::string_view::npos) {
      ++at_;
      return true;
    }
    if (peek() != '#') return false;
    const size_t end = in_.find('\n', at_);
    at_ = end == std::string_view::npos ? in_.size() : end + 1;
    return true;
  }

  static PatternPart single(std::string text) {
    return {.text = std::move(text), .least = 1, .most = 1, .single = true};
  }
  static PatternPart anchor(std::string text) {
    return {.text = std::move(text), .kind = PatternPart::Kind::anchor};
  }

  PatternPart class_part(PythonClass& set) const { return single(set.pcre2()); }

  PatternPart literal(char32_t code) const {
    PythonClass set;
    set.add(code, code);
    if (flags_.ignore_case) set.ignore_case(flags_.ascii);
    return class_part(set);
  }

  PatternPart item() {
    switch (peek()) {
      case '.':
        ++at_;
        return single(flags_.dot_all ? "[\\x{0}-\\x{10ffff}]" : "[^\\x{a}]");
      case '^':
        ++at_;
        return anchor(flags_.multiline ? "(?:\\A|(?<=\\x{a}))" : "\\A");
      case '$':
        ++at_;
        return anchor(flags_.multiline ? "(?=\\x{a}|\\z)" : "(?=\\x{a}?\\z)");
      case '[':
        ++at_;
        return set();
      case '\\':
        ++at_;
        return escape();
      default:
        return literal(next_character());
    }
  }

  // Returns true if a brace begins a repetition. Otherwise the brace is literal, as in {} and {a}.
  bool is_repeat() const {
    if (sees("{}")) return false;
    size_t at = in_.find_first_not_of("0123456789", at_ + 1);
    if (at != std::string_view::npos && in_[at] == ',') at = in_.find_first_not_of("0123456789", at + 1);
    return at != std::string_view::npos && in_[at] == '}';
  }

  int64_t repeat_count(std::string_view text, int64_t missing) const {
    if (text.empty()) return missing;
    int64_t count = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || count > kMaxRepeat)
      refuse(fmt::format("a repeat count above {}", kMaxRepeat));
    return count;
  }

  void repeat(std::vector<PatternPart>& parts) {
    const char c = in_[at_++];
    int64_t least = c == '+' ? 1 : 0, most = c == '?' ? 1 : kUnbounded;
    if (c == '{') {
      const std::string_view low = digits();
      const std::string_view high = take(",") ? digits() : low;
      least = repeat_count(low, 0);
      most = repeat_count(high, kUnbounded);
      take("}");
      if (most < least) refuse("min repeat greater than max repeat");
    }
    if (parts.empty() || parts.back().kind == PatternPart::Kind::anchor) refuse("nothing to repeat");
    PatternPart& part = parts.back();
    if (part.kind == PatternPart::Kind::repeat) refuse("multiple repeat");
    // After an iteration with an empty match, Python leaves the repetition, but PCRE2 tries the next
    // iteration.
    if (part.least == 0 && most > std::max<int64_t>(least, 1) && most != kUnbounded)
      refuse("a limited repetition of a part that can be empty, which is not supported; repeat it with *");
    if (most == 0) part.text = "(?:|(?!)" + part.text + ")";
    if (!part.single && most > 0) part.text = "(?:" + part.text + ")";
    if (most > 0)
      part.text += most == kUnbounded ? fmt::format("{{{},}}", least) : fmt::format("{{{},{}}}", least, most);
    const std::string_view suffix = take("?") ? "?" : take("+") ? "+" : "";
    if (suffix == "+" && part.least == 0 && part.text.find('(') != std::string::npos)
      refuse("a possessive repetition of a group that can be empty, which is not supported");
    if (most > 0) part.text += suffix;
    part.least = times(part.least, least);
    part.most = times(part.most, most);
    part.kind = PatternPart::Kind::repeat;
    part.single = false;
  }

  // Returns the character of a \x, \u, \U or control escape whose letter was read. Returns nothing for other
  // escapes.
  std::optional<char32_t> code_escape(char c) {
    constexpr std::string_view kNames = "afnrtv\\", kCodes = "\a\f\n\r\t\v\\";
    if (const size_t i = kNames.find(c); i != std::string_view::npos) return static_cast<char32_t>(kCodes[i]);
    if (c == 'x') return hexadecimal(2);
    if (c == 'u') return hexadecimal(4);
    if (c == 'U') return hexadecimal(8);
    if (c == 'N') refuse("the escape \\N, which is not supported; write the character");
    return std::nullopt;
  }

  char32_t hexadecimal(size_t digits) {
    const std::string_view text = in_.substr(std::min(at_, in_.size()), digits);
    uint32_t code = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    if (text.size() != digits || error != std::errc() || stop != text.data() + digits || code > 0x10ffff)
      refuse("incomplete or bad escape");
    at_ += digits;
    return code;
  }

  bool sees_octal(size_t ahead = 0) const {
    return at_ + ahead < in_.size() && in_[at_ + ahead] >= '0' && in_[at_ + ahead] <= '7';
  }

  // Reads up to `most` octal digits.
  char32_t octal(int most) {
    char32_t code = 0;
    for (int i = 0; i < most && sees_octal(); ++i)
      code = code * 8 + static_cast<char32_t>(in_[at_++] - '0');
    if (code > 0xff) refuse("octal escape value outside of range 0-0o377");
    return code;
  }

  bool add_category(PythonClass& set, char c) const {
    const auto lower = static_cast<char>(c | 0x20);
    using enum PythonClass::Category;
    if (lower != 'd' && lower != 's' && lower != 'w') return false;
    set.add(lower == 'd' ? digit : lower == 's' ? space : word, c != lower, flags_.ascii);
    return true;
  }

  std::string word() const {
    PythonClass set;
    set.add(PythonClass::Category::word, false, flags_.ascii);
    return set.pcre2();
  }

  PatternPart escape() {
    if (ends()) refuse("bad escape (end of pattern)");
    const char c = peek();
    if (is_ascii_digit(c)) return number_escape();
    if (static_cast<unsigned char>(c) >= 0x80) return literal(next_character());
    ++at_;
    PythonClass set;
    if (add_category(set, c)) return class_part(set);
    if (c == 'A') return anchor("\\A");
    if (c == 'Z') return anchor("\\z");
    const std::string w = word();
    if (c == 'b') return anchor(fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", w));
    // In an empty text, neither \b nor \B matches.
    if (c == 'B') return anchor(fmt::format("(?!\\A\\z)(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", w));
    if (const auto code = code_escape(c)) return literal(*code);
    if (is_ascii_letter(c)) refuse(fmt::format("bad escape \\{}", c));
    return literal(static_cast<unsigned char>(c));
  }

  // \0 and escapes with three octal digits are characters. Other numbers refer to groups.
  PatternPart number_escape() {
    if (peek() == '0') return literal(octal(3));
    const bool two = at_ + 1 < in_.size() && in_[at_ + 1] >= '0' && in_[at_ + 1] <= '9';
    if (two && sees_octal(0) && sees_octal(1) && sees_octal(2)) return literal(octal(3));
    int64_t number = in_[at_++] - '0';
    if (two) number = number * 10 + (in_[at_++] - '0');
    return reference(number);
  }

  PatternPart reference(int64_t number) {
    if (number > groups()) refuse(fmt::format("invalid group reference {}", number));
    const Group& group = groups_[static_cast<size_t>(number - 1)];
    if (group.open) refuse("cannot refer to an open group");
    check_lookbehind(number);
    if (flags_.ignore_case) refuse("a group reference with the flag to ignore case, which is not supported");
    return {.text = fmt::format("\\g{{{}}}", number), .least = group.least, .most = group.most};
  }

  void check_lookbehind(int64_t group) const {
    if (lookbehind_ && group > *lookbehind_)
      refuse("cannot refer to group defined in the same lookbehind subpattern");
  }

  // Reads one end of a range and returns its character. A category such as \d is added to the set instead,
  // and nothing is returned.
  std::optional<char32_t> set_member(PythonClass& set) {
    if (!take("\\")) return next_character();
    if (ends()) refuse("bad escape (end of pattern)");
    const char c = peek();
    if (c >= '0' && c <= '7') return octal(3);
    if (static_cast<unsigned char>(c) >= 0x80) return next_character();
    ++at_;
    if (c == 'b') return char32_t{'\b'};
    if (add_category(set, c)) return std::nullopt;
    if (const auto code = code_escape(c)) return code;
    if (is_ascii_alnum(c)) refuse(fmt::format("bad escape \\{}", c));
    return static_cast<char32_t>(c);
  }

  // Reads a character set after its opening bracket.
  PatternPart set() {
    PythonClass set;
    if (take("^")) set.negate();
    for (bool first = true;; first = false) {
      if (ends()) refuse("unterminated character set");
      if (!first && take("]")) break;
      const auto low = set_member(set);
      if (!take("-")) {
        if (low) set.add(*low, *low);
        continue;
      }
      if (ends()) refuse("unterminated character set");
      if (take("]")) {
        if (low) set.add(*low, *low);
        set.add('-', '-');
        break;
      }
      const auto high = set_member(set);
      if (!low || !high || *high < *low) refuse("bad character range");
      set.add(*low, *high);
    }
    if (flags_.ignore_case) set.ignore_case(flags_.ascii);
    return class_part(set);
  }

  std::string name_until(char end) {
    const size_t stop = in_.find(end, at_);
    if (stop == std::string_view::npos) refuse(fmt::format("missing {}, unterminated name", end));
    const std::string name(in_.substr(at_, stop - at_));
    if (name.empty()) refuse("missing group name");
    at_ = stop + 1;
    return name;
  }

  static bool is_name(const std::string& name) {
    return !(name[0] >= '0' && name[0] <= '9') && std::ranges::all_of(name, [](char c) {
      return is_ascii_alnum(c) || c == '_' || static_cast<unsigned char>(c) >= 0x80;
    });
  }

  int64_t named_group(const std::string& name) const {
    const auto known = names_.find(name);
    if (known == names_.end()) refuse("unknown group name");
    return known->second;
  }

  // Returns the number of the group that a condition names.
  int64_t condition_group(const std::string& name) {
    if (is_name(name)) return named_group(name);
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || stop != name.data() + name.size() || number < 1 || number > 9999)
      refuse("bad group number");
    later_groups_.push_back(number);
    return number;
  }

  // Reads a group or an assertion. Returns nothing for flags and comments.
  std::optional<PatternPart> group(int depth, bool may_set_flags) {
    take("(");
    if (!take("?")) return capture("", depth);
    const char c = next("unexpected end of pattern");
    if (c == 'P') return named(depth);
    if (c == '#') {
      const size_t end = in_.find(')', at_);
      if (end == std::string_view::npos) refuse("missing ), unterminated comment");
      at_ = end + 1;
      return std::nullopt;
    }
    if (c == ':') return enclosed("(?:", depth);
    if (c == '>') return enclosed("(?>", depth);
    if (c == '=' || c == '!') return assertion(c == '=' ? "(?=" : "(?!", depth);
    if (c == '<') return lookbehind(depth);
    if (c == '(') return condition(depth);
    return flag_group(c, depth, may_set_flags);
  }

  std::optional<PatternPart> named(int depth) {
    if (take("=")) return reference(named_group(checked_name(name_until(')'))));
    if (!take("<")) refuse("unknown extension ?P");
    const std::string name = checked_name(name_until('>'));
    if (names_.count(name) > 0) refuse("redefinition of group name");
    return capture(name, depth);
  }

  std::string checked_name(std::string name) const {
    if (!is_name(name)) refuse("bad character in group name");
    return name;
  }

  void close() {
    if (!take(")")) refuse("missing ), unterminated subpattern");
  }

  PatternPart capture(const std::string& name, int depth) {
    groups_.emplace_back();
    const size_t number = groups_.size();
    if (!name.empty()) names_[name] = static_cast<int64_t>(number);
    PatternPart part = enclosed("(", depth);
    groups_[number - 1] = {.least = part.least, .most = part.most, .open = false};
    return part;
  }

  // Flags that are set inside the parentheses do not apply after them.
  PatternPart enclosed(const std::string& open, int depth) {
    const Flags outside = flags_;
    PatternPart part = alternatives(depth + 1);
    flags_ = outside;
    close();
    part.text = open + part.text + ")";
    part.kind = PatternPart::Kind::item;
    return part;
  }

  PatternPart assertion(const std::string& open, int depth) {
    PatternPart part = enclosed(open, depth);
    part.least = part.most = 0;
    return part;
  }

  PatternPart lookbehind(int depth) {
    const char c = next("unexpected end of pattern");
    if (c != '=' && c != '!') refuse(fmt::format("unknown extension ?<{}", c));
    const std::optional<int64_t> outside = lookbehind_;
    if (!lookbehind_) lookbehind_ = groups();
    PatternPart part = enclosed(c == '=' ? "(?<=" : "(?<!", depth);
    lookbehind_ = outside;
    if (part.least != part.most) refuse("look-behind requires fixed-width pattern");
    part.least = part.most = 0;
    return part;
  }

  PatternPart condition(int depth) {
    const int64_t number = condition_group(name_until(')'));
    check_lookbehind(number);
    if (number <= groups() && groups_[static_cast<size_t>(number - 1)].open)
      refuse("a group that contains a condition on itself, which is not supported");
    PatternPart yes = sequence(depth + 1, false);
    PatternPart no;
    if (take("|")) {
      no = sequence(depth + 1, false);
      if (peek() == '|') refuse("conditional backref with more than two branches");
    }
    close();
    return {.text = fmt::format("(?({}){}|{})", number, yes.text, no.text),
            .least = std::min(yes.least, no.least),
            .most = std::max(yes.most, no.most)};
  }

  bool* flag(Flags& flags, char c) const {
    switch (c) {
      case 'i':
        return &flags.ignore_case;
      case 'm':
        return &flags.multiline;
      case 's':
        return &flags.dot_all;
      case 'x':
        return &flags.verbose;
      case 'a':
      case 'u':
        return &flags.ascii;
      default:
        refuse(fmt::format("unknown flag or extension ?{}", printable_text(std::string_view(&c, 1), 4)));
    }
  }

  // Reads (?flags) or (?flags-flags:...) after the first letter.
  std::optional<PatternPart> flag_group(char c, int depth, bool may_set_flags) {
    Flags flags = flags_;
    std::string on, off;
    for (; c != ')' && c != ':' && c != '-'; c = next("missing -, : or )")) {
      *flag(flags, c) = c != 'u';
      on += c;
    }
    if (on.find('a') != std::string::npos && on.find('u') != std::string::npos)
      refuse("flags 'a', 'u' and 'L' are incompatible");
    if (c == ')') {
      if (!may_set_flags) refuse("global flags not at the start of the expression");
      flags_ = flags;
      return std::nullopt;
    }
    if (c == '-') {
      for (c = next("missing flag"); c != ':'; c = next("missing :")) {
        *flag(flags, c) = false;
        off += c;
      }
      if (off.empty()) refuse("missing flag");
      if (off.find_first_of("au" + on) != std::string::npos) refuse("a flag that cannot be turned off");
    }
    const Flags outside = flags_;
    flags_ = flags;
    PatternPart part = alternatives(depth + 1);
    flags_ = outside;
    close();
    part.text = "(?:" + part.text + ")";
    return part;
  }

  std::string_view in_;
  size_t at_ = 0;
  Flags flags_;
  std::vector<Group> groups_;
  std::map<std::string, int64_t> names_;
  std::vector<int64_t> later_groups_;  // group numbers in conditions, which may refer to later groups
  std::optional<int64_t> lookbehind_;  // number of groups before the outermost open lookbehind
};

}  // namespace

std::string pcre2_of_python(std::string_view pattern) {
  if (const auto bad = first_invalid_utf8(pattern)) fail("at byte {}: invalid UTF-8", *bad);
  return PatternTranslator(pattern).translate();
}

}  // namespace gpt
