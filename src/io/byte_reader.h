#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace gpt {

// Reads little-endian numbers and byte ranges from a span, from front to back. Every read is bounds-checked
// and throws Error if too few bytes are left.
class ByteReader {
 public:
  // `what` names the file in error messages and must outlive the reader.
  ByteReader(std::span<const std::byte> bytes, const std::string& what) : bytes_(bytes), what_(what) {}

  size_t left() const { return bytes_.size() - at_; }
  size_t position() const { return at_; }

  // `part`, if given, names the field in error messages.
  std::span<const std::byte> take(uint64_t n, std::string_view part = {}) {
    if (n > left()) {
      const std::string needs =
          part.empty() ? fmt::format("expected {} more", n) : fmt::format("{} needs {}", part, n);
      fail("{} is damaged or incomplete: {} bytes, found {}", what_, needs, left());
    }
    at_ += static_cast<size_t>(n);
    return bytes_.subspan(at_ - static_cast<size_t>(n), static_cast<size_t>(n));
  }
  std::string_view text(uint64_t n, std::string_view part = {}) {
    const auto piece = take(n, part);
    return {reinterpret_cast<const char*>(piece.data()), piece.size()};
  }
  template <class T>
  T number(std::string_view part = {}) {
    T value;
    std::memcpy(&value, take(sizeof value, part).data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& what_;
  size_t at_ = 0;
};

}  // namespace gpt
