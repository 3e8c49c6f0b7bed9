#include "text/jinja/python_text.h"

#include <utf8proc.h>

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

namespace {

bool is_cased(char32_t c) {
  const auto code = static_cast<utf8proc_int32_t>(c);
  return utf8proc_toupper(code) != code || utf8proc_tolower(code) != code ||
         utf8proc_category(code) == UTF8PROC_CATEGORY_LL || utf8proc_category(code) == UTF8PROC_CATEGORY_LU;
}

std::string changed(char32_t c, Case to, bool begins) {
  constexpr char32_t kSharpS = 0xdf;
  const auto code = static_cast<utf8proc_int32_t>(c);
  const bool up = to == Case::upper || (begins && (to == Case::title || to == Case::capitalize)) ||
                  (to == Case::swap && is_cased_lower(c));
  if (up && c == kSharpS) return to == Case::upper || to == Case::swap ? "SS" : "Ss";
  const bool title = up && (to == Case::title || to == Case::capitalize);
  std::string out;
  append_utf8(out, static_cast<char32_t>(title ? utf8proc_totitle(code)
                                               : (up ? utf8proc_toupper(code) : utf8proc_tolower(code))));
  return out;
}

}  // namespace

bool is_cased_upper(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LU;
}
bool is_cased_lower(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_LL;
}

JinjaText change_case(const JinjaText& text, Case to) {
  JinjaText out;
  bool begins = true;
  for (size_t at = 0; at < text.text.size();) {
    const Utf8Char c = decode_utf8(text.text, at);
    const JinjaSpan& span = text.span_at(at);
    out.append(changed(c.code, to, begins), span.origin, span.generated);
    begins = to == Case::title && !is_cased(c.code);
    at += static_cast<size_t>(c.length);
  }
  return out;
}

std::string lowered(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    out += changed(c.code, Case::lower, false);
    at += static_cast<size_t>(c.length);
  }
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
