#include "report/utf8_text.h"

#include <array>
#include <utility>

#include "base/utf8.h"

namespace gpt {
namespace {

struct CodePoints {
  char32_t first, last;
};

constexpr std::array<CodePoints, 8> kZeroWidthCodePoints = {{{0x0300, 0x036F},
                                                             {0x0483, 0x0489},
                                                             {0x0591, 0x05BD},
                                                             {0x064B, 0x065F},
                                                             {0x1AB0, 0x1AFF},
                                                             {0x200B, 0x200F},
                                                             {0x20D0, 0x20FF},
                                                             {0xFE00, 0xFE0F}}};

constexpr std::array<CodePoints, 9> kWideCodePoints = {{{0x1100, 0x115F},
                                                        {0x2E80, 0xA4CF},
                                                        {0xAC00, 0xD7A3},
                                                        {0xF900, 0xFAFF},
                                                        {0xFE30, 0xFE6F},
                                                        {0xFF00, 0xFF60},
                                                        {0xFFE0, 0xFFE6},
                                                        {0x1F300, 0x1FAFF},
                                                        {0x20000, 0x3FFFD}}};

template <size_t N>
bool contains(const std::array<CodePoints, N>& ranges, char32_t c) {
  for (const CodePoints& range : ranges) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

int code_point_width(char32_t c) {
  if (contains(kZeroWidthCodePoints, c)) return 0;
  return contains(kWideCodePoints, c) ? 2 : 1;
}

char32_t visible_code_point(char32_t c, bool keep_layout) {
  if (keep_layout && (c == '\n' || c == '\t')) return c;
  if (c < 0x20) return 0x2400 + c;
  if (c == 0x7F) return 0x2421;
  if (c < 0xA0 && c > 0x7F) return kReplacementChar;        // C1 controls, which some terminals execute
  if ((c & 0xFFFE) == 0xFFFE) return kReplacementChar;      // noncharacters, which XML does not allow
  if (c >= 0x202A && c <= 0x202E) return kReplacementChar;  // embeddings and overrides of text direction
  if (c >= 0x2066 && c <= 0x2069) return kReplacementChar;  // isolates of text direction
  return c;
}

constexpr std::pair<char32_t, const char*> kEntities[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

void append_escaped(std::string& out, char32_t c) {
  for (const auto& [markup, entity] : kEntities) {
    if (c != markup) continue;
    out += entity;
    return;
  }
  append_utf8(out, c);
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& position) {
  const Utf8Char c = decode_utf8(text, position);
  position += c.status == Utf8Status::valid ? static_cast<size_t>(c.length) : 1;
  return c.code;
}

std::string visible_text(std::string_view text, bool keep_layout) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    append_utf8(out, visible_code_point(next_code_point(text, i), keep_layout));
  }
  return out;
}

std::string escape_markup(std::string_view text, bool keep_layout) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (size_t i = 0; i < text.size();) {
    append_escaped(out, visible_code_point(next_code_point(text, i), keep_layout));
  }
  return out;
}

std::string escape_script(std::string_view json) {
  std::string out;
  for (const char c : json)
    c == '<' ? out += "\\u003c" : out += c;
  return out;
}

int display_width(std::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size();)
    width += code_point_width(next_code_point(text, i));
  return width;
}

std::string cut_to_width(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  const bool ellipsis = width >= 2;
  const int room = ellipsis ? width - 1 : width;
  int used = 0;
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const int columns = code_point_width(next_code_point(text, i));
    if (used + columns > room) break;
    used += columns;
    end = i;
  }
  return std::string(text.substr(0, end)) + (ellipsis ? "…" : "");
}

}  // namespace gpt
