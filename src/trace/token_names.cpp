#include "trace/token_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/utf8_text.h"

namespace gpt {

std::string TokenNames::quoted(int32_t id, int width) const {
  if (!known()) return fmt::format("#{}", id);
  return "\"" + cut_to_width(visible_text(raw(id)), std::max(width - 2, 1)) + "\"";
}

std::string TokenNames::short_name(int32_t id, int width) const {
  if (!known()) return fmt::format("#{}", id);
  const std::string text = visible_text(raw(id));
  std::string shown;
  for (const char c : text)
    shown += c == ' ' ? "·" : std::string(1, c);
  return cut_to_width(shown, width);
}

std::string TokenNames::hex(int32_t id, size_t count) const {
  const std::string bytes = raw(id);
  std::string out;
  for (size_t i = 0; i < std::min(bytes.size(), count); ++i)
    out += fmt::format("{}{:02x}", i > 0 ? " " : "", static_cast<unsigned char>(bytes[i]));
  return bytes.size() > count ? out + " ..." : out;
}

}  // namespace gpt
