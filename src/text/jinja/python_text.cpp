#include "text/jinja/python_text.h"

#include "base/utf8.h"

namespace gpt {

bool is_python_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

std::string_view python_strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    const Utf8Char c = decode_utf8(text, 0);
    if (!is_python_space(c.code)) break;
    text.remove_prefix(static_cast<size_t>(c.length));
  }
  while (right && !text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80)
      --at;
    if (!is_python_space(decode_utf8(text, at).code)) break;
    text = text.substr(0, at);
  }
  return text;
}

namespace jinja {

std::vector<size_t> char_offsets(std::string_view text) {
  std::vector<size_t> offsets;
  offsets.reserve(text.size() + 1);
  for (size_t at = 0; at < text.size(); at += static_cast<size_t>(decode_utf8(text, at).length))
    offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

JinjaText change_case(const JinjaText& text, LetterCase to) {
  JinjaText out;
  gpt::change_case(text.text, to, [&](size_t at, std::string_view changed) {
    const JinjaSpan& span = text.span_at(at);
    out.append(changed, span.origin, span.generated);
  });
  return out;
}

bool all_chars(std::string_view text, bool (*is)(char32_t)) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    if (!is(c.code)) return false;
    at += static_cast<size_t>(c.length);
  }
  return !text.empty();
}

}  // namespace jinja
}  // namespace gpt
