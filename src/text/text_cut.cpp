#include "text/text_cut.h"

#include "base/ascii.h"
#include "base/utf8.h"
#include "text/unicode.h"

namespace gpt {
namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Returns true if a valid character other than white space ends at byte `end` > begin.
bool solid_before(std::string_view text, size_t begin, size_t end) {
  size_t at = end - 1;
  while (at > begin && end - at < 4 && is_continuation(text[at]))
    --at;
  const Utf8Char c = decode_utf8(text, at);
  return c.status == Utf8Status::valid && at + static_cast<size_t>(c.length) == end &&
         !is_white_space(c.code);
}

bool is_safe(std::string_view text, size_t begin, size_t at) {
  const char next = text[at];
  if (next == ' ')
    return is_ascii_letter(text[at - 1]) && at + 1 < text.size() && is_ascii_letter(text[at + 1]);
  const bool word = is_ascii_alnum(next);
  return word && text[at - 1] == '\n' && at - 1 > begin && solid_before(text, begin, at - 1);
}

}  // namespace

size_t last_safe_cut(std::string_view text, size_t begin, size_t end) {
  for (size_t at = end; at > begin; --at) {
    if (at < text.size() && is_safe(text, begin, at)) return at;
  }
  return begin;
}

size_t last_cut(std::string_view text, size_t begin, size_t end) {
  const size_t safe = last_safe_cut(text, begin, end);
  if (safe > begin) return safe;
  if (end >= text.size() || !is_continuation(text[end])) return end;
  size_t at = end;
  while (at > begin && end - at < 4 && is_continuation(text[at]))
    --at;
  return at > begin && !is_continuation(text[at]) ? at : end;
}

}  // namespace gpt
