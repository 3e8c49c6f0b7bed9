#include "io/safetensors.h"

#include <utility>

#include "io/safetensors_header.h"

namespace gpt {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr std::string_view kExpected = "F32, F16, BF16, F64, I64, I32 or U8; convert the file first";

// Splits a file into the text of its header and its body.
std::pair<std::string_view, std::span<const std::byte>> split(std::span<const std::byte> bytes,
                                                              const std::string& what) {
  if (bytes.size() < kLengthBytes) {
    fail("{} is not a safetensors file: expected at least {} bytes, found {}", what, kLengthBytes,
         bytes.size());
  }
  uint64_t length = 0;  // little-endian
  for (size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | std::to_integer<uint64_t>(bytes[i]);
  if (length > SafetensorsLimits::header_bytes) {
    fail("{} is not a safetensors file: expected a header of at most {} bytes, found {}", what,
         SafetensorsLimits::header_bytes, length);
  }
  if (length > bytes.size() - kLengthBytes) {
    fail("{} is damaged or incomplete: its header should have {} bytes, found {}", what, length,
         bytes.size() - kLengthBytes);
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  return {{text, length}, bytes.subspan(kLengthBytes + length)};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : TensorFile(path, kExpected), file_(path) {
  parse(file_.bytes());
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& what)
    : TensorFile(what, kExpected) {
  parse(bytes);
}

void SafetensorsFile::parse(std::span<const std::byte> bytes) {
  const auto [text, body] = split(bytes, path());
  SafetensorsHeader header = parse_safetensors_header(text, body.size(), path());
  metadata_ = std::move(header.metadata);
  std::vector<TensorInfo> tensors;
  std::vector<UnsupportedTensor> unsupported;
  tensors.reserve(header.entries.size());
  for (SafetensorsEntry& e : header.entries) {
    if (e.type->dtype) {
      tensors.push_back(
          {std::move(e.name), *e.type->dtype, std::move(e.shape), body.subspan(e.begin, e.end - e.begin)});
    } else {
      unsupported.push_back({std::move(e.name), std::string(e.type->name), std::move(e.shape)});
    }
  }
  set_tensors(std::move(tensors), std::move(unsupported));
}

}  // namespace gpt
