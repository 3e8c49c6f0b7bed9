#include "text/byte_level.h"

#include "base/utf8.h"

namespace gpt::detail {

const std::array<char32_t, 256>& byte_level_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> table{};
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      table[b] = printable ? b : next++;
    }
    return table;
  }();
  return alphabet;
}

std::string in_alphabet(std::string_view bytes) {
  std::string out;
  for (const char c : bytes)
    append_utf8(out, byte_level_alphabet()[static_cast<unsigned char>(c)]);
  return out;
}

AlphabetReader::AlphabetReader() {
  for (size_t byte = 0; byte < 256; ++byte)
    bytes_[byte_level_alphabet()[byte]] = static_cast<char>(byte);
}

std::optional<std::string> AlphabetReader::bytes_of(std::string_view token) const {
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const Utf8Char c = decode_utf8(token, at);
    const auto found = c.status == Utf8Status::valid ? bytes_.find(c.code) : bytes_.end();
    if (found == bytes_.end()) return std::nullopt;
    out += found->second;
    at += static_cast<size_t>(c.length);
  }
  return out;
}

}  // namespace gpt::detail
