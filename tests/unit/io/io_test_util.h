#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {

using test::error_of;
using test::Fact;
using test::names;
using test::refused;
using test::TempDir;

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline std::string little_endian(uint64_t value) {
  std::string s(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    s[i] = static_cast<char>(value >> 8 * i & 0xff);
  return s;
}

// Returns a safetensors file with this header and this number of data bytes.
inline std::string safetensors(const std::string& header, size_t body_bytes = 0) {
  return little_endian(header.size()) + header + std::string(body_bytes, '\1');
}

}  // namespace gpt
