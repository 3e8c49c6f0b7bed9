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

// A safetensors file, mapped and lazy: opening reads the header only. The whole structure is checked
// then: header length, strict JSON, no duplicate names, known types, sizes that match the shapes,
// and a body that the tensors cover without holes or overlap. Anything else throws Error naming the
// file and the tensor. A file truncated by another process while it is open is beyond our control.
// Source: the format's README; where its reference library is laxer (duplicate names, leading blanks)
// this reader is strict.
class SafetensorsFile : public TensorFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  // The same for bytes in memory, which must outlive the object; `what` names them in errors.
  SafetensorsFile(std::span<const std::byte> bytes, const std::string& what);

  // In the order of their data; tensors of unsupported types are left out.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const MappedFile* mapped() const override { return &file_; }

 private:
  void parse(std::span<const std::byte> bytes);

  MappedFile file_;
  std::map<std::string, std::string> metadata_;
};

// A type of the format: its name, its size, and what it is here, if anything.
struct SafetensorsType {
  std::string_view name;
  int bits;
  std::optional<DType> dtype;
};

const SafetensorsType* find_safetensors_type(std::string_view name);  // nullptr when unknown
std::string_view safetensors_type_name(DType dtype);

struct SafetensorsEntry {
  std::string name;
  const SafetensorsType* type = nullptr;
  Shape shape;
  uint64_t begin = 0;  // bytes from the start of the body
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

// Parses the JSON part of a header and checks everything except duplicate names: types, shapes, and that
// the entries cover a body of `body_bytes` exactly. Throws Error naming `what` and the tensor.
SafetensorsHeader parse_safetensors_header(std::string_view text, uint64_t body_bytes,
                                           const std::string& what);

// What the reader accepts and the writer keeps to. Together they bound the memory that a hostile header
// can take to about 100 MB besides the mapped file itself.
struct SafetensorsLimits {
  static constexpr uint64_t header_bytes = 100'000'000;  // the reference library's limit
  static constexpr size_t tensors = size_t{1} << 18;
  static constexpr size_t metadata_entries = size_t{1} << 16;
  static constexpr size_t name_bytes = 1024;
  static constexpr size_t rank = 8;
  static constexpr size_t text_bytes = size_t{32} << 20;  // names and metadata together
};

}  // namespace gpt
