#include "tasks/python_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "text/jinja/datetime.h"
#include "text/unicode.h"

namespace gpt {
namespace {

using json = nlohmann::ordered_json;

bool is_space(char32_t code) {
  return (code >= 0x1c && code <= 0x1f) || is_white_space(code);
}

// Returns the last character of a non-empty text and the offset where the character begins.
std::pair<char32_t, size_t> last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80)
    --at;
  return {decode_utf8(text, at).code, at};
}

// Parses Python literals. A function sets `ok_` to false if the text is not a literal.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  std::optional<json> read() {
    skip();
    json value = read_value(0);
    skip();
    if (!ok_ || at_ != text_.size()) return std::nullopt;
    return value;
  }

 private:
  static constexpr int kDepth = 64;

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    skip();
    return true;
  }
  bool take_word(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  void skip() {
    while (at_ < text_.size() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r'))
      ++at_;
  }
  json refuse() {
    ok_ = false;
    return nullptr;
  }

  json read_value(int depth) {
    if (depth > kDepth) return refuse();
    const char c = peek();
    if (c == '\'' || c == '"') return read_strings();
    if (take('[')) return read_list(']', depth);
    if (take('(')) return read_list(')', depth);
    if (take('{')) return read_dict(depth);
    if (take_word("True")) return true;
    if (take_word("False")) return false;
    if (take_word("None")) return nullptr;
    return read_number();
  }

  json read_list(char end, int depth) {
    json list = json::array();
    bool comma = false;
    while (ok_ && !take(end)) {
      if (!list.empty() && !comma) return refuse();
      list.push_back(read_value(depth + 1));
      skip();
      comma = take(',');
    }
    // A single value in parentheses is that value, not a tuple.
    if (end == ')' && list.size() == 1 && !comma) return json(list[0]);
    return list;
  }

  json read_dict(int depth) {
    json dict = json::object();
    bool comma = true;
    while (ok_ && !take('}')) {
      if (!comma) return refuse();
      const json key = read_value(depth + 1);
      skip();
      if (!key.is_string() || !take(':')) return refuse();
      dict[key.get<std::string>()] = read_value(depth + 1);
      skip();
      comma = take(',');
    }
    return dict;
  }

  json read_number() {
    const size_t first = at_;
    while (at_ < text_.size() && std::string_view("+-.0123456789eE_").find(peek()) != std::string_view::npos)
      ++at_;
    std::string digits(text_.substr(first, at_ - first));
    std::erase(digits, '_');
    if (digits.starts_with('+')) digits.erase(0, 1);
    const size_t lead = digits.starts_with('-') ? 1 : 0;
    if (digits.size() > lead + 1 && digits[lead] == '0' && digits.find_first_of(".eE") == std::string::npos)
      return refuse();
    if (const auto integer = parse_number<int64_t>(digits)) return *integer;
    if (digits.find_first_not_of("0123456789", lead) == std::string::npos && digits.size() > lead)
      return big_integer<json>(digits);
    if (const auto fraction = parse_number<double>(digits)) return *fraction;
    return refuse();
  }

  json read_strings() {  // adjacent string literals are concatenated
    std::string out;
    while (ok_ && (peek() == '\'' || peek() == '"')) {
      read_string(out);
      skip();
    }
    return out;
  }

  void read_string(std::string& out) {
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] == '\n') break;
      if (text_[at_] == '\\') {
        ++at_;
        read_escape(out);
      } else {
        out += text_[at_++];
      }
    }
    if (peek() != quote || at_ >= text_.size()) {
      ok_ = false;
    } else {
      ++at_;
    }
  }

  void read_escape(std::string& out) {
    const char c = peek();
    constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
    const size_t i = c == '\0' ? std::string_view::npos : kNames.find(c);
    if (i != std::string_view::npos) {
      out += kValues[i];
      ++at_;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      ++at_;
      read_code(out, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    } else if (c >= '0' && c <= '7') {
      ok_ = false;  // octal escapes are not supported; repr never writes them
    } else {
      out += '\\';
    }
  }

  void read_code(std::string& out, size_t digits) {
    const std::string_view hex = text_.substr(at_, digits);
    uint32_t code = 0;
    const auto [stop, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    const bool whole = error == std::errc() && hex.size() == digits && stop == hex.data() + digits;
    if (!whole || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
      ok_ = false;
      return;
    }
    append_utf8(out, static_cast<char32_t>(code));
    at_ += digits;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace

std::string_view strip(std::string_view text) {
  while (starts_with_space(text))
    text.remove_prefix(static_cast<size_t>(decode_utf8(text, 0).length));
  return rstrip(text);
}

std::string_view rstrip(std::string_view text) {
  while (ends_with_space(text))
    text = text.substr(0, last_character(text).second);
  return text;
}

bool starts_with_space(std::string_view text) {
  return !text.empty() && is_space(decode_utf8(text, 0).code);
}

bool ends_with_space(std::string_view text) {
  return !text.empty() && is_space(last_character(text).first);
}

int64_t characters(std::string_view text) {
  int64_t n = 0;
  for (size_t at = 0; at < text.size(); ++n)
    at += static_cast<size_t>(decode_utf8(text, at).length);
  return n;
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t found = text.find(from); found != std::string_view::npos; found = text.find(from)) {
    out.append(text.substr(0, found)).append(to);
    text.remove_prefix(found + from.size());
  }
  return out.append(text);
}

std::string without_any(std::string_view text, std::string_view ascii) {
  std::string out(text);
  std::erase_if(out, [&](char c) { return ascii.find(c) != std::string_view::npos; });
  return out;
}

int64_t count_words(std::string_view text) {
  int64_t words = 1;
  bool in_space = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const bool space = is_space(c.code);
    words += space && !in_space ? 1 : 0;
    in_space = space;
    at += static_cast<size_t>(c.length);
  }
  return words;
}

std::optional<json> python_literal(std::string_view text) {
  return Literal(text).read();
}

std::string python_str(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  if (value.is_binary() && !is_big_integer(value)) return PythonDatetime::from_json(value).str();
  return json_text(value);
}

}  // namespace gpt
