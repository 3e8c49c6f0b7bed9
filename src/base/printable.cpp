#include "base/printable.h"

#include <fmt/core.h>

namespace gpt {

std::string printable(std::string_view untrusted) {
  constexpr size_t kMost = 80;
  std::string out = "\"";
  for (const char c : untrusted.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  if (untrusted.size() > kMost) out += "...";
  return out + "\"";
}

}  // namespace gpt
