#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/error.h"
#include "base/parse.h"
#include "text/jinja/builtins.h"
#include "text/jinja/python_text.h"
#include "text/jinja/safe_text.h"

namespace gpt::jinja {
namespace {

constexpr int64_t kMostWidth = 1000;

// A conversion specifier of Python's % operator, such as %(name)-08.3f.
struct Conversion {
  std::string name;
  bool named = false, left = false, zero = false, plus = false, blank = false;
  int64_t width = 0, precision = -1;
  char type = 0;
};

class PercentFormat {
 public:
  PercentFormat(Runtime& rt, const JinjaText& text, const Value& values)
      : rt_(rt), text_(text), values_(values), out_(rt.limits) {}

  Value run() {
    const std::string& bytes = text_.text;
    size_t begin = 0;
    for (size_t at = bytes.find('%'); at != std::string::npos; at = bytes.find('%', begin)) {
      out_.add(text_, begin, at);
      begin = at + 1;
      if (bytes.compare(begin, 1, "%") == 0) {
        out_.add("%");
        ++begin;
      } else {
        write(conversion(begin));
      }
    }
    out_.add(text_, begin, bytes.size());
    const bool may_leave =
        values_.dict() != nullptr || values_.is_undefined() || (values_.list() != nullptr && !is_tuple());
    if (!may_leave && next_ < count()) fail("not all arguments were converted by the format string");
    return text_.safe ? marked_safe(out_.value()) : out_.value();
  }

 private:
  Conversion conversion(size_t& at) const {
    const std::string& bytes = text_.text;
    Conversion c;
    if (at < bytes.size() && bytes[at] == '(') {
      const size_t close = bytes.find(')', at);
      if (close == std::string::npos) fail("incomplete conversion in the format string");
      c.named = true;
      c.name = bytes.substr(at + 1, close - at - 1);
      at = close + 1;
    }
    for (; at < bytes.size() && std::string_view("-0+ ").find(bytes[at]) != std::string_view::npos; ++at) {
      c.left |= bytes[at] == '-';
      c.zero |= bytes[at] == '0';
      c.plus |= bytes[at] == '+';
      c.blank |= bytes[at] == ' ';
    }
    c.width = number(at);
    if (at < bytes.size() && bytes[at] == '.') c.precision = number(++at);
    if (at >= bytes.size()) fail("incomplete conversion in the format string");
    c.type = bytes[at++];
    return c;
  }
  int64_t number(size_t& at) const {
    int64_t value = 0;
    for (; at < text_.text.size() && text_.text[at] >= '0' && text_.text[at] <= '9'; ++at) {
      value = value * 10 + (text_.text[at] - '0');
      if (value > kMostWidth) fail("the width or precision of a conversion exceeds {}", kMostWidth);
    }
    return value;
  }

  Value argument(const Conversion& c) {
    if (c.named) {
      if (values_.dict() == nullptr) fail("a format string with names requires a dict");
      const Value* found = find_item(rt_.limits, *values_.dict(), c.name);
      if (found == nullptr) fail("the format string refers to a missing key");
      next_ = count();  // as in CPython, an unnamed conversion must not follow
      return *found;
    }
    if (next_ >= count()) fail("not enough arguments for the format string");
    return is_tuple() ? values_.list()->items[next_++] : (++next_, values_);
  }
  bool is_tuple() const { return values_.list() != nullptr && values_.list()->kind == ListKind::tuple; }
  size_t count() const { return is_tuple() ? values_.list()->items.size() : 1; }

  void write(const Conversion& c) {
    const Value value = argument(c);
    JinjaText written;
    if (c.type == 's') {
      written = to_text(rt_, value);
    } else if (c.type == 'r') {
      TextBuilder repr(rt_.limits);
      append_repr(repr, value);
      written = repr.take();
    } else {
      written.append(number_text(c, value));
    }
    const bool is_text = c.type == 's' || c.type == 'r';
    if (is_text && text_.safe) written = escaped(written);
    if (is_text && c.precision >= 0) {
      const std::vector<size_t> offsets = char_offsets(written.text);
      written = written.substr(0, offsets[std::min(offsets.size() - 1, static_cast<size_t>(c.precision))]);
    }
    out_.add(pad_text(rt_, written, c.width, " ", c.left ? '<' : '>'));
  }

  std::string number_text(const Conversion& c, const Value& value) const {
    if (!value.is_number()) fail("%{}: expected a number, found {}", c.type, type_name(value));
    const char* const sign = c.plus ? "+" : (c.blank ? " " : "");
    char flags[8], room[1600];
    int64_t integer = 0;
    switch (c.type) {
      case 'd':
      case 'i':
      case 'u':
        if (value.real() != nullptr && !(std::abs(*value.real()) < 9e18)) fail("%d: the number is too large");
        integer = value.real() != nullptr ? static_cast<int64_t>(*value.real()) : need_integer(value, "%d");
        std::snprintf(flags, sizeof flags, "%%%s.*lld", sign);
        std::snprintf(room, sizeof room, flags, std::max(1, static_cast<int>(c.precision)),
                      static_cast<long long>(integer));
        break;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
        std::snprintf(flags, sizeof flags, "%%%s.*%c", sign, c.type);
        std::snprintf(room, sizeof room, flags, c.precision < 0 ? 6 : static_cast<int>(c.precision),
                      value.as_double());
        break;
      default:
        fail_unsupported("the conversion %{} is not supported", c.type);
    }
    std::string text = room;
    const int64_t missing = c.width - std::ssize(text);
    if (c.zero && !c.left && missing > 0)
      text.insert(std::isalnum(static_cast<unsigned char>(text[0])) != 0 ? 0 : 1,
                  static_cast<size_t>(missing), '0');
    return text;
  }

  Runtime& rt_;
  const JinjaText& text_;
  const Value& values_;
  TextBuilder out_;
  size_t next_ = 0;
};

}  // namespace

Value percent_format(Runtime& rt, const JinjaText& text, const Value& values) {
  return PercentFormat(rt, text, values).run();
}

Value brace_format(Runtime& rt, const JinjaText& text, const Arguments& arguments) {
  TextBuilder out(rt.limits);
  const std::string& bytes = text.text;
  size_t next = 0;
  bool numbered = false;
  for (size_t at = 0; at < bytes.size();) {
    const size_t stop = std::min(bytes.find_first_of("{}", at), bytes.size());
    out.add(text, at, stop);
    if (stop == bytes.size()) break;
    if (stop + 1 < bytes.size() && bytes[stop + 1] == bytes[stop]) {
      out.add(text, stop, stop + 1);
      at = stop + 2;
      continue;
    }
    const size_t close = bytes[stop] == '{' ? bytes.find('}', stop) : std::string::npos;
    if (close == std::string::npos) fail("format: unmatched brace");
    const std::string field = bytes.substr(stop + 1, close - stop - 1);
    if (field.find_first_of(":!.[{") != std::string::npos)
      fail(
          "format: only {{}}, {{0}} and {{name}} are supported, found a field with a conversion, attribute "
          "or index");
    const auto index = field.empty() ? std::optional(next++) : parse_number<size_t>(field);
    numbered |= index && !field.empty();
    if (numbered && next > 0) fail("format: {{}} and numbered fields cannot be mixed, found {{{}}}", field);
    const auto named = std::ranges::find(arguments.named, field, &std::pair<std::string, Value>::first);
    if (index ? *index >= arguments.positional.size() : named == arguments.named.end())
      fail("format: no argument for a field");
    const JinjaText inserted = to_text(rt, index ? arguments.positional[*index] : named->second);
    out.add(text.safe ? escaped(inserted) : inserted);
    at = close + 1;
  }
  return text.safe ? marked_safe(out.value()) : out.value();
}

}  // namespace gpt::jinja
