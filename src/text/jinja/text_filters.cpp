#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"
#include "text/jinja/safe_text.h"
#include "text/unicode.h"

namespace gpt::jinja {
namespace {

template <LetterCase kTo>
Value cased(Runtime& rt, const Value& self, const Bound&) {
  const JinjaText text = to_text(rt, self);
  rt.limits.use(text.text.size());
  return Value(change_case(text, kTo));
}

// Implements the title filter of Jinja. Words only begin after white space, "-" and opening brackets.
Value title(Runtime& rt, const Value& self, const Bound&) {
  const JinjaText text = to_text(rt, self);
  rt.limits.use(text.text.size());
  JinjaText out;
  size_t begin = 0;
  const auto word = [&](size_t end) {
    if (begin >= end) return;
    const size_t rest = begin + static_cast<size_t>(decode_utf8(text.text, begin).length);
    out.append(change_case(text.substr(begin, rest), LetterCase::upper));
    out.append(change_case(text.substr(rest, end), LetterCase::lower));
  };
  for (size_t at = 0; at < text.text.size();) {
    const Utf8Char c = decode_utf8(text.text, at);
    const size_t next = at + static_cast<size_t>(c.length);
    if (is_python_space(c.code) || (c.code < 128 && std::string_view("-({[<").find(static_cast<char>(
                                                        c.code)) != std::string_view::npos)) {
      word(at);
      out.append(text, at, next);
      begin = next;
    }
    at = next;
  }
  word(text.text.size());
  return Value(std::move(out));
}

Value trim(Runtime& rt, const Value& self, const Bound& a) {
  const bool all = a[0] == nullptr || a[0]->is_none();
  return Value(strip_text(to_text(rt, self), all ? nullptr : &need_text(*a[0], "trim"), true, true));
}

Value string(Runtime& rt, const Value& self, const Bound&) {
  return Value(to_text(rt, self));
}

Value safe(Runtime& rt, const Value& self, const Bound&) {
  return marked_safe(Value(to_text(rt, self)));
}

template <bool kForce>
Value escape(Runtime& rt, const Value& self, const Bound&) {
  JinjaText text = to_text(rt, self);
  if (kForce) text.safe = false;
  rt.limits.use(text.text.size());
  return Value(escaped(text));
}

Value attribute(Runtime& rt, const Value& self, const Bound& a) {
  const std::string name = need_text(*a[0], "attr").text;
  const bool item = self.dict() != nullptr && !has_method(self, name);  // attr does not look up dict items
  return item ? Value::undefined(fmt::format("a dict has no attribute '{}'", printable_text(name, 64)))
              : get_attribute(rt, self, name);
}

Value replace(Runtime& rt, const Value& self, const Bound& a) {
  return replace_text(rt, to_text(rt, self), to_text(rt, *a[0]), to_text(rt, *a[1]),
                      integer_or(a[2], "replace", -1));
}

Value indent(Runtime& rt, const Value& self, const Bound& a) {
  const JinjaText& text = need_text(self, "indent");
  JinjaText margin;
  if (a[0] != nullptr && a[0]->text() != nullptr) {
    margin = *a[0]->text();
  } else {
    const int64_t width = integer_or(a[0], "indent", 4);
    if (width > 1000) fail("indent: more than 1000 spaces");
    margin.append(std::string(static_cast<size_t>(std::max<int64_t>(width, 0)), ' '));
  }
  const bool first = flag_or(rt, a[1], false), blank = flag_or(rt, a[2], false);
  JinjaText ended = text;  // like Jinja, append a newline and then split the text into lines
  ended.append("\n");
  TextBuilder out(rt.limits);
  const std::vector<JinjaText> lines = text_lines(ended, false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.add("\n");
    if (i == 0 ? first : (blank || !lines[i].text.empty())) out.add(margin);
    out.add(lines[i]);
  }
  return out.value();
}

Value center(Runtime& rt, const Value& self, const Bound& a) {
  return Value(pad_text(rt, to_text(rt, self), integer_or(a[0], "center", 80), " ", '^'));
}

Value truncate(Runtime& rt, const Value& self, const Bound& a) {
  const int64_t length = integer_or(a[0], "truncate", 255), leeway = integer_or(a[3], "truncate", 5);
  const bool kill_words = flag_or(rt, a[1], false);
  JinjaText end;
  end.append("...");
  if (a[2] != nullptr) end = need_text(*a[2], "truncate");
  const auto end_chars = count_chars(end.text);
  if (length < end_chars) fail("truncate: expected a length of at least {}, found {}", end_chars, length);
  if (leeway < 0) fail("truncate: the leeway is negative");
  if (length_of(rt, self) - leeway <= length) return self;
  const JinjaText& text = need_text(self, "truncate");
  const std::vector<size_t> offsets = char_offsets(text.text);
  size_t kept = offsets[static_cast<size_t>(length - end_chars)];
  if (!kill_words) kept = std::min(kept, text.text.substr(0, kept).rfind(' '));
  JinjaText begin = text.substr(0, kept);
  begin.safe = text.safe;
  return binary(rt, "+", Value(std::move(begin)), Value(std::move(end)));
}

Value wordcount(Runtime& rt, const Value& self, const Bound&) {
  const std::string text = to_text(rt, self).text;
  rt.limits.use(text.size());
  int64_t n = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    const Category kind = category(c.code);
    const bool word = is_letter(kind) || is_number(kind) || c.code == '_';
    n += word && !inside ? 1 : 0;
    inside = word;
    at += static_cast<size_t>(c.length);
  }
  return Value(n);
}

Value tojson(Runtime& rt, const Value& self, const Bound& a) {
  JsonStyle style;
  style.ensure_ascii = flag_or(rt, a[0], false);
  style.indent = integer_or(a[1], "tojson", -1);
  if (style.indent > 100) fail("tojson: the indent exceeds 100");
  if (style.indent >= 0) style.item_separator = ",";
  if (a[2] != nullptr && !a[2]->is_none()) {
    const std::vector<Value> both = iterate(rt, *a[2]);
    if (both.size() != 2) fail("tojson: expected two separators");
    style.item_separator = need_text(both[0], "a separator").text;
    style.key_separator = need_text(both[1], "a separator").text;
  }
  style.sort_keys = flag_or(rt, a[3], false);
  TextBuilder out(rt.limits);
  append_json(out, self, style);
  return out.value();
}

// ---- numbers ----

// Converts the input of int(text) in Python to plain digits, for base 10. Surrounding white space, a sign,
// and single underscores between digits are allowed.
std::optional<std::string> plain_number(std::string_view text) {
  text = python_strip(text, true, true);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == '_' && (i == 0 || !digit(i - 1) || !digit(i + 1))) return std::nullopt;
    if (text[i] != '_') out += text[i];
  }
  return out;
}
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  const auto plain = plain_number(text);
  return plain ? parse_number<Number>(*plain) : std::nullopt;
}

// Equivalent to float(text) of Python. The result is infinite or 0 if the number exceeds the range of a
// double.
std::optional<double> real_of(std::string_view text) {
  const auto plain = plain_number(text);
  if (!plain) return std::nullopt;
  double value = 0;
  const char* const end = plain->data() + plain->size();
  const auto [stop, error] = std::from_chars(plain->data(), end, value);
  if (stop != end || error == std::errc::invalid_argument) return std::nullopt;
  return error == std::errc() ? value : std::strtod(plain->c_str(), nullptr);
}

Value to_integer(Runtime&, const Value& self, const Bound& a) {
  if (self.is_undefined()) fail("{}", self.undefined_what());
  if (integer_or(a[1], "int", 10) != 10) fail("int: only base 10 is supported");
  const Value other = a[0] == nullptr ? Value(int64_t{0}) : *a[0];
  int64_t room = 0;
  if (const int64_t* integer = self.as_integer(room)) return Value(*integer);
  if (self.big_integer() != nullptr) return self;
  std::optional<double> real;
  if (self.real() != nullptr) real = *self.real();
  if (real && std::isinf(*real)) fail("int: the number is infinite");
  if (self.text() != nullptr) {
    if (const auto integer = number_of<int64_t>(self.text()->text)) return Value(*integer);
    real = real_of(self.text()->text);
  }
  if (!real || !std::isfinite(*real)) return other;
  if (std::fabs(*real) >= 9.2e18) fail("int: the number exceeds 64 bits");
  return Value(static_cast<int64_t>(*real));
}

Value to_float(Runtime&, const Value& self, const Bound& a) {
  if (self.is_undefined()) fail("{}", self.undefined_what());
  if (self.is_number()) return Value(self.as_double());
  const auto real = self.text() == nullptr ? std::nullopt : real_of(self.text()->text);
  return real ? Value(*real) : (a[0] == nullptr ? Value(0.0) : *a[0]);
}

Value absolute(Runtime&, const Value& self, const Bound&) {
  if (!self.is_number()) fail("abs: expected a number, found {}", type_name(self));
  if (self.as_double() < 0) return negative(self);
  int64_t room = 0;
  const int64_t* integer = self.as_integer(room);
  if (integer != nullptr) return Value(*integer);
  return self.real() != nullptr ? Value(std::fabs(*self.real())) : self;
}

// Python rounds the exact value of a double and rounds halves to even, as printf does.
double rounded(double value, int64_t digits) {
  if (digits >= 0) return parse_number<double>(fmt::format("{:.{}f}", value, digits)).value_or(value);
  const double unit = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(value / unit) * unit;
}

Value round(Runtime&, const Value& self, const Bound& a) {
  if (!self.is_number()) fail("round: expected a number, found {}", type_name(self));
  const int64_t digits = integer_or(a[0], "round", 0);
  const std::string method = text_or(a[1], "round", "common");
  if (std::abs(digits) > 300) fail("round: more than 300 digits");
  int64_t room = 0;
  if (method == "common") {
    const int64_t* integer = self.as_integer(room);
    if (integer != nullptr && digits >= 0) return Value(*integer);
    if (self.big_integer() != nullptr) {
      if (digits < 0) fail("round: the number exceeds 64 bits");
      return self;
    }
    const double value = rounded(self.as_double(), digits);
    return integer != nullptr ? Value(static_cast<int64_t>(value)) : Value(value);
  }
  if (method != "ceil" && method != "floor")
    fail("round: expected the method common, ceil or floor, found \"{}\"", printable_text(method, 32));
  const double unit = std::pow(10.0, static_cast<double>(digits)), scaled = self.as_double() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

}  // namespace

std::span<const Builtin> text_filters() {
  static constexpr Builtin kAll[] = {
      {"upper", "", 0, cased<LetterCase::upper>},
      {"lower", "", 0, cased<LetterCase::lower>},
      {"capitalize", "", 0, cased<LetterCase::capitalize>},
      {"title", "", 0, title},
      {"trim", "chars", 0, trim},
      {"string", "", 0, string},
      {"safe", "", 0, safe},
      {"escape", "", 0, escape<false>},
      {"e", "", 0, escape<false>},
      {"forceescape", "", 0, escape<true>},
      {"attr", "name", 1, attribute},
      {"replace", "old new count", 2, replace},
      {"indent", "width first blank", 0, indent},
      {"center", "width", 0, center},
      {"truncate", "length killwords end leeway", 0, truncate},
      {"wordcount", "", 0, wordcount},
      {"tojson", "ensure_ascii indent separators sort_keys", 0, tojson},
      {"int", "default base", 0, to_integer},
      {"float", "default", 0, to_float},
      {"abs", "", 0, absolute},
      {"round", "precision method", 0, round},
  };
  return kAll;
}

}  // namespace gpt::jinja
