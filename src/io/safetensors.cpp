#include "io/safetensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "io/printable.h"
#include "io/safetensors_header.h"

namespace gpt {
namespace {

constexpr uint64_t kLengthBytes = 8;

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

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path), path_(path) {
  parse(file_.bytes());
}

SafetensorsFile::SafetensorsFile(std::span<const std::byte> bytes, const std::string& what) : path_(what) {
  parse(bytes);
}

void SafetensorsFile::parse(std::span<const std::byte> bytes) {
  const auto [text, body] = split(bytes, path_);
  SafetensorsHeader header = parse_safetensors_header(text, body.size(), path_);
  metadata_ = std::move(header.metadata);
  tensors_.reserve(header.entries.size());
  for (SafetensorsEntry& e : header.entries) {
    if (e.type->dtype) {
      tensors_.push_back(
          {std::move(e.name), *e.type->dtype, std::move(e.shape), body.subspan(e.begin, e.end - e.begin)});
    } else {
      unsupported_.push_back({std::move(e.name), std::string(e.type->name), std::move(e.shape)});
    }
  }
  index_names();
}

void SafetensorsFile::index_names() {
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return tensors_[a].name < tensors_[b].name; });
  std::sort(unsupported_.begin(), unsupported_.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto duplicate = [&](const std::string& name) {
    fail("{}: the tensor {} occurs twice", path_, printable(name));
  };
  for (size_t i = 1; i < by_name_.size(); ++i) {
    if (tensors_[by_name_[i - 1]].name == tensors_[by_name_[i]].name) duplicate(tensors_[by_name_[i]].name);
  }
  for (size_t i = 0; i < unsupported_.size(); ++i) {
    const std::string& name = unsupported_[i].name;
    if (i > 0 && unsupported_[i - 1].name == name) duplicate(name);
    const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                     [&](uint32_t t, const std::string& n) { return tensors_[t].name < n; });
    if (at != by_name_.end() && tensors_[*at].name == name) duplicate(name);
  }
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                   [&](uint32_t t, std::string_view n) { return tensors_[t].name < n; });
  if (at != by_name_.end() && tensors_[*at].name == name) return &tensors_[*at];
  const auto odd =
      std::lower_bound(unsupported_.begin(), unsupported_.end(), name,
                       [](const UnsupportedTensor& t, std::string_view n) { return t.name < n; });
  if (odd != unsupported_.end() && odd->name == name) {
    fail(
        "{}: tensor {} has the type {}, expected F32, F16, BF16, F64, I64, I32 or U8; convert the file first",
        path_, printable(name), odd->dtype);
  }
  return nullptr;
}

}  // namespace gpt
