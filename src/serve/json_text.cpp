#include "serve/json_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace gpt::serve {

void append_json(std::string& out, std::string_view text) {
  out += '"';
  size_t clean = 0;  // start of the text that is copied unchanged
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
    out += text.substr(clean, i - clean);
    clean = i + 1;
    switch (c) {
      case '"':
      case '\\':
        out += '\\';
        out += static_cast<char>(c);
        break;
      case '\n':
        out += "\\n";
        break;
      default:
        out += fmt::format("\\u{:04x}", c);
    }
  }
  out += text.substr(clean);
  out += '"';
}

std::string base64(std::string_view bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = 0; j < 3; ++j)
      three = three << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j)
      out += i + j > bytes.size() ? '=' : kDigits[three >> (18 - 6 * j) & 63];
  }
  return out;
}

}  // namespace gpt::serve
