#include "tasks/yaml_scalars.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"

namespace gpt {
namespace {

using Value = nlohmann::ordered_json;

constexpr std::string_view kYamlDigits = "0123456789";

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// Removes white space, so that two readings of a scalar can be compared.
std::string without_space(std::string_view text) {
  std::string out(text);
  std::erase_if(out, [](char c) { return is_blank(c) || c == '\n' || c == '\r'; });
  return out;
}

// Folds the line ends between two words. A single line end becomes a space, and n > 1 line ends become n - 1.
void append_folded(std::string& out, size_t line_ends) {
  if (line_ends == 1) {
    out += ' ';
  } else {
    out.append(line_ends - 1, '\n');
  }
}

bool is_only(std::string_view text, std::string_view characters) {
  return text.find_first_not_of(characters) == std::string_view::npos;
}

// Removes a prefix from the text. Returns false if the text does not have the prefix.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool take_sign(std::string_view& text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  return negative;
}

// Matches numbers such as "1:30:00". Every number after the first one has one or two digits and is below 60.
bool is_sexagesimal(std::string_view text) {
  size_t at = text.find(':');
  if (at == std::string_view::npos || at == 0 || !is_only(text.substr(0, at), "0123456789_") ||
      text[0] == '_')
    return false;
  while (at < text.size()) {
    const size_t next = std::min(text.find(':', at + 1), text.size());
    const std::string_view group = text.substr(at + 1, next - at - 1);
    if (group.empty() || group.size() > 2 || !is_only(group, kYamlDigits)) return false;
    if (group.size() == 2 && group[0] > '5') return false;
    at = next;
  }
  return true;
}

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

int64_t integer_in(std::string_view digits, int base, bool negative, const std::string& shown) {
  const std::string all = (negative ? "-" : "") + without_underscores(digits);
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(all.data(), all.data() + all.size(), value, base);
  if (error != std::errc() || stop != all.data() + all.size())
    fail("the integer {}, which does not fit into 64 bits", printable_text(shown, 40));
  return value;
}

int64_t sexagesimal(std::string_view text, bool negative, const std::string& shown) {
  int64_t value = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t next = std::min(text.find(':', at), text.size());
    const int64_t group = integer_in(text.substr(at, next - at), 10, false, shown);
    if (__builtin_mul_overflow(value, int64_t{60}, &value) || __builtin_add_overflow(value, group, &value))
      fail("the integer {}, which does not fit into 64 bits", printable_text(shown, 40));
    at = next + 1;
  }
  return negative ? -value : value;
}

std::optional<int64_t> integer_of(const std::string& text) {
  std::string_view rest = text;
  const bool negative = take_sign(rest);
  if (rest.empty() || rest[0] < '0' || rest[0] > '9') return std::nullopt;
  if (rest.starts_with("0b") || rest.starts_with("0x")) {
    const int base = rest[1] == 'b' ? 2 : 16;
    rest.remove_prefix(2);
    const std::string_view digits = base == 2 ? "01_" : "0123456789abcdefABCDEF_";
    if (without_underscores(rest).empty() || !is_only(rest, digits)) return std::nullopt;
    return integer_in(rest, base, negative, text);
  }
  if (rest.size() > 1 && rest[0] == '0')
    return is_only(rest, "01234567_") ? std::optional(integer_in(rest, 8, negative, text)) : std::nullopt;
  if (is_only(rest, "0123456789_")) return integer_in(rest, 10, negative, text);
  if (rest[0] != '0' && is_sexagesimal(rest)) return sexagesimal(rest, negative, text);
  return std::nullopt;
}

// Matches [0-9][0-9_]*.[0-9_]* or .[0-9][0-9_]*. An exponent is optional and must have a sign.
bool is_fraction(std::string_view text, bool has_sign) {
  const size_t exponent = text.find_first_of("eE");
  if (exponent != std::string_view::npos) {
    const std::string_view tail = text.substr(exponent + 1);
    if (tail.size() < 2 || (tail[0] != '+' && tail[0] != '-') || !is_only(tail.substr(1), kYamlDigits))
      return false;
    text = text.substr(0, exponent);
  }
  const size_t point = text.find('.');
  if (point == std::string_view::npos) return false;
  const std::string_view before = text.substr(0, point), after = text.substr(point + 1);
  if (!is_only(before, "0123456789_") || !is_only(after, "0123456789_")) return false;
  if (before.empty()) return !has_sign && !after.empty() && after[0] != '_';
  return before[0] != '_';
}

std::optional<double> sexagesimal_fraction(std::string_view text) {
  const size_t point = text.find('.');
  if (point == std::string_view::npos || !is_sexagesimal(text.substr(0, point)) ||
      !is_only(text.substr(point + 1), "0123456789_"))
    return std::nullopt;
  double value = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t next = std::min(text.find(':', at), text.size());
    std::string group = without_underscores(text.substr(at, next - at));
    if (group.ends_with('.')) group += '0';
    value = value * 60 + parse_number<double>(group).value_or(0);
    at = next + 1;
  }
  return value;
}

std::optional<double> fraction_of(const std::string& text) {
  std::string_view rest = text;
  const bool negative = take_sign(rest);
  const bool has_sign = rest.size() != text.size();
  const double sign = negative ? -1 : 1;
  if (rest == ".inf" || rest == ".Inf" || rest == ".INF")
    return sign * std::numeric_limits<double>::infinity();
  if (!has_sign && (rest == ".nan" || rest == ".NaN" || rest == ".NAN"))
    return std::numeric_limits<double>::quiet_NaN();
  if (const auto value = sexagesimal_fraction(rest)) return sign * *value;
  if (!is_fraction(rest, has_sign)) return std::nullopt;
  std::string digits = without_underscores(rest);
  if (digits.starts_with('.')) digits.insert(0, 1, '0');
  const size_t point = digits.find('.');
  if (point + 1 == digits.size() || digits[point + 1] < '0' || digits[point + 1] > '9')
    digits.insert(point + 1, 1, '0');
  const auto value = parse_number<double>(digits);
  if (!value)
    fail("the number {}, which is out of the range of 64-bit floating point", printable_text(text, 40));
  return sign * *value;
}

// Matches a date with a time: YYYY-M-D, then T or blanks, then H:MM:SS.
bool is_timestamp(std::string_view text) {
  const auto digits = [&](size_t least, size_t most) {
    const size_t n = std::min(text.find_first_not_of(kYamlDigits), text.size());
    if (n < least || n > most) return false;
    text.remove_prefix(n);
    return true;
  };
  if (!digits(4, 4) || !take(text, "-") || !digits(1, 2) || !take(text, "-") || !digits(1, 2)) return false;
  if (!take(text, "T") && !take(text, "t")) {
    if (text.empty() || !is_blank(text[0])) return false;
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  }
  return digits(1, 2) && take(text, ":") && digits(2, 2) && take(text, ":") && digits(2, 2);
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

}  // namespace

nlohmann::ordered_json yaml_plain_value(const std::string& text) {
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return nullptr;
  if (is_one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
  if (is_one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) return false;
  if (const auto integer = integer_of(text)) return *integer;
  if (const auto fraction = fraction_of(text)) return *fraction;
  if (text == "=" || text == "<<" || is_timestamp(text))
    fail("{}, which is not a string in YAML 1.1; write it in quotes", printable_text(text, 40));
  return text;
}

nlohmann::ordered_json yaml_tagged_value(const std::string& kind, const std::string& text) {
  Value value = yaml_plain_value(text);
  if (kind == "float" && value.is_number_integer()) value = value.get<double>();
  if ((kind == "int" && value.is_number_integer()) || (kind == "float" && value.is_number_float()) ||
      (kind == "bool" && value.is_boolean()) || (kind == "null" && value.is_null()))
    return value;
  fail("{} with the tag !!{}", printable_text(text, 40), printable_text(kind, 40));
}

size_t YamlScalars::after_properties(size_t at) const {
  while (at < source_.size()) {
    const char c = source_[at];
    if (is_blank(c) || c == '\n') {
      ++at;
    } else if (c == '#') {
      at = std::min(source_.find('\n', at), source_.size());
    } else if (c == '!' || c == '&') {
      at = std::min(source_.find_first_of(" \t\n", at), source_.size());
    } else {
      break;
    }
  }
  return at;
}

int YamlScalars::column(size_t at) const {
  const size_t line = at == 0 ? std::string_view::npos : source_.rfind('\n', at - 1);
  const std::string_view before = source_.substr(line + 1, at - line - 1);
  return static_cast<int>(std::ranges::count_if(before, [](char c) { return (c & 0xc0) != 0x80; }));
}

// A tag or an anchor on a line of its own belongs to the collection. If the content follows on the same line,
// the tag or the anchor belongs to the first node of the collection.
int YamlScalars::column_of_collection(size_t at) const {
  const size_t content = after_properties(at);
  const bool other_line = source_.substr(at, content - at).find('\n') != std::string_view::npos;
  return column(other_line ? content : at);
}

std::optional<std::string> YamlScalars::text(size_t at, const std::string& parsed, int indent) const {
  at = after_properties(at);
  const char c = at < source_.size() ? source_[at] : '\n';
  if (c == '\'') return single_quoted(at + 1);
  if (c == '"') return double_quoted(at + 1);
  if (c != '|' && c != '>') return plain(at, parsed);
  const auto read = block(at, indent);
  if (!read || without_space(*read) != without_space(parsed)) return std::nullopt;
  return read;
}

// Reads line ends with the blanks around them. Returns false if a line begins with a document marker (--- or
// ...).
bool YamlScalars::skip_breaks(size_t& at, std::string& breaks) const {
  for (;;) {
    const std::string_view rest = source_.substr(at);
    if ((rest.starts_with("---") || rest.starts_with("...")) &&
        (rest.size() == 3 || is_blank(rest[3]) || rest[3] == '\n'))
      return false;
    at = std::min(source_.find_first_not_of(" \t", at), source_.size());
    if (at == source_.size() || source_[at] != '\n') return true;
    breaks += '\n';
    ++at;
  }
}

// Reads white space within quotes. Blanks are kept, but a line end is folded together with the blanks around
// it.
bool YamlScalars::fold_quoted(size_t& at, std::string& out) const {
  const size_t end = std::min(source_.find_first_not_of(" \t", at), source_.size());
  if (end == source_.size()) return false;
  if (source_[end] != '\n') {
    out += source_.substr(at, end - at);
    at = end;
    return true;
  }
  std::string breaks = "\n";
  at = end + 1;
  if (!skip_breaks(at, breaks)) return false;
  append_folded(out, breaks.size());
  return true;
}

std::optional<std::string> YamlScalars::single_quoted(size_t at) const {
  std::string out;
  while (at < source_.size()) {
    const char c = source_[at];
    if (is_blank(c) || c == '\n') {
      if (!fold_quoted(at, out)) return std::nullopt;
      continue;
    }
    if (c == '\'' && source_.substr(at, 2) != "''") return out;
    at += c == '\'' ? 2 : 1;
    out += c;
  }
  return std::nullopt;
}

std::optional<std::string> YamlScalars::double_quoted(size_t at) const {
  std::string out;
  while (at < source_.size()) {
    const char c = source_[at];
    if (c == '"') return out;
    if (is_blank(c) || c == '\n') {
      if (!fold_quoted(at, out)) return std::nullopt;
    } else if (c == '\\') {
      if (!escape(++at, out)) return std::nullopt;
    } else {
      out += c;
      ++at;
    }
  }
  return std::nullopt;
}

// Reads an escape after its backslash.
bool YamlScalars::escape(size_t& at, std::string& out) const {
  constexpr std::string_view kNames = "abtnvfre\"\\/ \t", kBytes = "\a\b\t\n\v\f\r\x1b\"\\/ \t";
  const char c = at < source_.size() ? source_[at++] : '\0';
  if (c == '\n') return skip_breaks(at, out);
  if (const size_t i = kNames.find(c); c != '\0' && i != std::string_view::npos) {
    out += kBytes[i];
    return true;
  }
  switch (c) {
    case '0':
      out += '\0';
      return true;
    case 'N':
      append_utf8(out, 0x85);
      return true;
    case '_':
      append_utf8(out, 0xa0);
      return true;
    case 'L':
      append_utf8(out, 0x2028);
      return true;
    case 'P':
      append_utf8(out, 0x2029);
      return true;
    default:
      break;
  }
  const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  const std::string_view hex = source_.substr(at, digits);
  uint32_t code = 0;
  const auto [stop, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
  if (digits == 0 || hex.size() != digits || error != std::errc() || stop != hex.data() + digits)
    return false;
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
  append_utf8(out, code);
  at += digits;
  return true;
}

// Returns the plain scalar at byte `at`. `parsed` has the correct words. The white space between the words is
// read from the source again.
std::optional<std::string> YamlScalars::plain(size_t at, const std::string& parsed) const {
  std::string out;
  for (const char c : parsed) {
    if (c == ' ' || c == '\n') continue;
    const size_t begin = at;
    at = std::min(source_.find_first_not_of(" \n", at), source_.size());
    const std::string_view space = source_.substr(begin, at - begin);
    const auto line_ends = static_cast<size_t>(std::ranges::count(space, '\n'));
    if (line_ends == 0) {
      out += space;
    } else {
      append_folded(out, line_ends);
    }
    // PyYAML does not accept tabs in plain scalars.
    if (at == source_.size() || source_[at] != c || c == '\t') return std::nullopt;
    out += c;
    ++at;
  }
  return out;
}

std::optional<std::string> YamlScalars::block(size_t at, int indent) const {
  const bool folded = source_[at++] == '>';
  char chomping = ' ';
  int increment = 0;
  for (; at < source_.size() && !is_blank(source_[at]) && source_[at] != '\n'; ++at) {
    const char c = source_[at];
    if ((c == '+' || c == '-') && chomping == ' ') {
      chomping = c;
    } else if (c >= '1' && c <= '9' && increment == 0) {
      increment = c - '0';
    } else {
      return std::nullopt;
    }
  }
  at = std::min(source_.find_first_not_of(' ', at), source_.size());
  if (at < source_.size() && source_[at] != '\n' && source_[at] != '#') return std::nullopt;
  at = std::min(source_.find('\n', at), source_.size() - 1) + 1;

  // Reads line ends and up to `most` spaces of indentation. Returns the number of spaces read in the last
  // line.
  std::string breaks;
  int longest = 0;
  const auto skip = [&](int most) {
    breaks.clear();
    int spaces = 0;
    for (; at < source_.size(); ++at) {
      if (source_[at] == '\n') {
        breaks += '\n';
        spaces = 0;
      } else if (source_[at] == ' ' && spaces < most) {
        longest = std::max(longest, ++spaces);
      } else {
        break;
      }
    }
    return spaces;
  };
  const int least = std::max(indent + 1, 1);
  int width = increment > 0 ? least + increment - 1 : std::numeric_limits<int>::max();
  int spaces = skip(width);
  if (increment == 0) width = std::max(least, longest);
  std::string out, line_end;
  while (spaces == width && at < source_.size()) {
    out += breaks;
    const bool indented = is_blank(source_[at]);
    const size_t end = std::min(source_.find('\n', at), source_.size());
    out += source_.substr(at, end - at);
    line_end = end < source_.size() ? "\n" : "";
    at = end + line_end.size();
    spaces = skip(width);
    if (spaces != width || at == source_.size()) break;
    if (!folded || indented || is_blank(source_[at])) {
      out += line_end;
    } else if (breaks.empty()) {
      out += ' ';
    }
  }
  if (chomping != '-') out += line_end;
  if (chomping == '+') out += breaks;
  return out;
}

}  // namespace gpt
