#include "text/jinja_shape.h"

#include <cctype>

namespace gpt::detail {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// "\n" and the like of a string literal become the characters themselves, as they are in templates.
char unescaped(char c) {
  return c == 'n' ? '\n' : (c == 't' ? '\t' : c);
}

// The inside of a tag: words that blanks part keep one blank, .name becomes ['name'].
std::string tag_shape(std::string_view code) {
  std::string out;
  for (size_t i = 0; i < code.size();) {
    const char c = code[i];
    if (c == '\'' || c == '"') {
      out += '\'';
      for (++i; i < code.size() && code[i] != c; ++i) {
        const bool escape = code[i] == '\\' && i + 1 < code.size();
        const char plain = escape ? unescaped(code[++i]) : code[i];
        if (plain == '\'') out += '\\';
        out += plain;
      }
      ++i;
      out += '\'';
    } else if (is_blank(c)) {
      while (i < code.size() && is_blank(code[i]))
        ++i;
      if (i < code.size() && !out.empty() && is_word(out.back()) && is_word(code[i])) out += ' ';
    } else if (c == '.' && !out.empty() && (is_word(out.back()) || out.back() == ']') &&
               i + 1 < code.size() && std::isalpha(static_cast<unsigned char>(code[i + 1])) != 0) {
      size_t end = i + 1;
      while (end < code.size() && is_word(code[end]))
        ++end;
      const std::string name(code.substr(i + 1, end - i - 1));
      out += end < code.size() && code[end] == '(' ? "." + name : "['" + name + "']";
      i = end;
    } else {
      out += c;
      ++i;
    }
  }
  return out;
}

void strip_end(std::string& text, size_t keep) {
  while (text.size() > keep && is_blank(text.back()))
    text.pop_back();
}

// Blanks between the beginning of a line and a block tag at `at` are not written.
void strip_line_begin(std::string& text, size_t keep, std::string_view source, size_t at) {
  size_t begin = at;
  while (begin > 0 && (source[begin - 1] == ' ' || source[begin - 1] == '\t'))
    --begin;
  if (begin > 0 && source[begin - 1] != '\n') return;
  while (text.size() > keep && (text.back() == ' ' || text.back() == '\t'))
    text.pop_back();
}

}  // namespace

std::string jinja_shape(std::string_view source) {
  std::string out;
  size_t text_begin = 0;  // in out: where the text since the last tag begins
  size_t i = 0;
  while (i < source.size()) {
    const bool opens = source[i] == '{' && i + 1 < source.size() &&
                       (source[i + 1] == '{' || source[i + 1] == '%' || source[i + 1] == '#');
    if (!opens) {
      out += source[i++];
      continue;
    }
    const char kind = source[i + 1];
    const std::string close = kind == '{' ? "}}" : std::string(1, kind) + "}";
    const size_t end = source.find(close, i + 2);
    if (end == std::string_view::npos) return std::string(source);
    std::string_view code = source.substr(i + 2, end - i - 2);
    const bool strips_before = code.starts_with('-'), strips_after = code.ends_with('-') && code.size() > 1;
    if (strips_before) code.remove_prefix(1);
    if (strips_after) code.remove_suffix(1);
    if (strips_before) {
      strip_end(out, text_begin);
    } else if (kind != '{') {
      strip_line_begin(out, text_begin, source, i);
    }
    if (kind != '#') out += (kind == '{' ? "\1(" : "\1[") + tag_shape(code) + "\2";
    i = end + 2;
    if (strips_after) {
      while (i < source.size() && is_blank(source[i]))
        ++i;
    } else if (kind != '{' && i < source.size() && source[i] == '\n') {
      ++i;
    }
    text_begin = out.size();
  }
  return out;
}

}  // namespace gpt::detail
