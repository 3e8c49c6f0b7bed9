#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "io/tensor_file.h"
#include "tensor/tensor.h"

namespace gpt {

// A memory-mapped safetensors file. Opening the file reads and validates only the header: its length, strict
// JSON, no duplicate names, known dtypes, sizes that match the shapes, and tensors that cover the data
// section without holes or overlap. Violations throw Error that names the file and the tensor. The reader
// cannot protect against another process that truncates the file while it is open. Source: the README of the
// safetensors format. This reader is stricter than the reference library, which allows duplicate names and
// leading spaces.
class SafetensorsFile : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  // Reads a safetensors file from memory. `bytes` must outlive the object; `what` names the file in error
  // messages.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& what);

  // Returns the string pairs under `__metadata__`.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const MappedFile* mapped() const override { return &file_; }

 private:
  void parse(std::span<const std::byte> bytes);

  MappedFile file_;
  std::map<std::string, std::string> metadata_;
};

// Describes a safetensors dtype: its name, its size, and the matching DType if this program supports it.
struct SafetensorsType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};

const SafetensorsType* find_safetensors_type(std::string_view name);  // nullptr if unknown
std::string_view safetensors_type_name(DType dtype);

struct SafetensorsEntry {
  std::string name;
  const SafetensorsType* type = nullptr;
  Shape shape;
  uint64_t begin = 0;  // byte offset from the start of the data section
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by data offset
  std::map<std::string, std::string> metadata;
};

// Parses the JSON part of a header. Checks the dtypes, the shapes, and that the entries cover exactly
// `body_bytes` bytes of data, but not that names are unique. Throws Error that names `what` and the tensor.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t body_bytes,
                                           const std::string& what);

// Limits that the reader enforces and the writer respects. With these limits, a malicious header can allocate
// at most about 100 MB in addition to the mapped file.
struct SafetensorsLimits {
  static constexpr uint64_t header_bytes = 100'000'000;  // the same limit as in the reference library
  static constexpr size_t tensors = size_t{1} << 18;
  static constexpr size_t metadata_entries = size_t{1} << 16;
  static constexpr size_t name_bytes = 1024;
  static constexpr size_t rank = 8;
  static constexpr size_t text_bytes = size_t{32} << 20;  // total size of names and metadata
};

}  // namespace gpt
