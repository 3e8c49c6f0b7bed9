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
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "tensor/tensor.h"

namespace gpt {

// Metadata value types, with the same numbers as in the file format.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// A metadata key and its value in file encoding: `count` little-endian values of one type without gaps. Each
// string is preceded by its 8-byte length. The parser has already validated the key and the value.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::u8;  // the element type if the value is an array
  bool is_array = false;
  uint64_t count = 1;
  std::span<const std::byte> bytes;
};

// Describes a ggml tensor type: its number and name in ggml, the size of its quantization blocks, and the
// matching DType if this program supports the type.
struct GgmlType {
  uint32_t number;
  std::string_view name;
  BlockSize block;
  std::optional<DType> dtype;
};
const GgmlType* find_ggml_type(uint32_t number);  // nullptr if unknown
const GgmlType& ggml_type(DType dtype);  // requires a dtype that exists in ggml (every DType except u8)

struct GgufTensorEntry {
  std::string name;
  const GgmlType* type = nullptr;
  Shape shape;         // row-major order: the contiguous dimension is last (GGUF stores it first)
  uint64_t begin = 0;  // byte offset from the start of the data section
  uint64_t size = 0;
};

struct GgufHeader {
  uint32_t version = 0;
  std::vector<GgufEntry> metadata;       // in file order
  std::vector<GgufTensorEntry> tensors;  // in file order
  uint64_t data_begin = 0;               // byte offset from the start of the file
};

// Limits that the reader enforces and the writer respects. Every count is also checked against the file size.
// Together these checks bound the memory that a malicious header can allocate.
struct GgufLimits {
  static constexpr uint64_t tensors = uint64_t{1} << 18;
  static constexpr uint64_t metadata_entries = uint64_t{1} << 16;
  static constexpr uint64_t name_bytes = 1024;                  // length of a key or of a tensor name
  static constexpr uint64_t string_bytes = uint64_t{16} << 20;  // length of a string value
  static constexpr uint64_t array_elements = uint64_t{1}
                                             << 26;  // 256 times the size of the largest vocabularies
  static constexpr uint32_t rank = 4;                // GGML_MAX_DIMS
  static constexpr uint32_t alignment = 1 << 20;
};

inline constexpr uint32_t kGgufVersion = 3;
inline constexpr uint32_t kGgufAlignment = 32;  // used if the file does not specify an alignment
inline constexpr const char* kGgufAlignmentKey = "general.alignment";

// Parses the header of a complete GGUF file. Checks types, lengths, counts, shapes and tensor offsets, but
// not that names are unique. Nested arrays are rejected. Throws Error that names `what` and the key or
// tensor.
GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& what);

// A memory-mapped GGUF file (version 2 or 3, little-endian). Opening the file reads and validates only the
// header. It checks counts and lengths against the file size. It also checks types, shapes, the alignment,
// that keys and names are unique, and that tensors are inside the file and do not overlap. Violations throw
// Error that names the file and the key or tensor. Source: ggml, docs/gguf.md. This reader is stricter than
// ggml.
class GgufFile : public TensorFile {
 public:
  explicit GgufFile(const std::string& path);
  // Reads a GGUF file from memory. `bytes` must outlive the object; `what` names the file in error messages.
  GgufFile(std::span<const std::byte> bytes, const std::string& what);

  uint32_t version() const { return version_; }

  const std::vector<GgufEntry>& metadata() const { return metadata_; }  // in file order
  const GgufEntry* entry(std::string_view key) const;                   // nullptr if the key is missing
  bool has(std::string_view key) const { return entry(key) != nullptr; }

  // Returns the value of `key`, or nullopt if the file does not have this key. Throws Error if the value has
  // a different type. `integer` accepts all integer types, as long as the value fits into int64. `number`
  // also accepts integers and may return non-finite values.
  std::optional<std::string_view> string(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<float>> numbers(std::string_view key) const;

  // Returns the value of a required key. Throws Error if the file does not have this key.
  std::string_view need_string(std::string_view key) const;
  int64_t need_integer(std::string_view key) const;
  double need_number(std::string_view key) const;
  const MappedFile* mapped() const override { return &file_; }

 private:
  void parse(std::span<const std::byte> bytes);
  const GgufEntry* typed(std::string_view key, bool array, bool (*fits)(GgufType), const char* kind) const;
  template <class T>
  T needed(std::optional<T> value, std::string_view key) const;

  MappedFile file_;
  uint32_t version_ = 0;
  std::vector<GgufEntry> metadata_;
  std::map<std::string_view, const GgufEntry*> by_key_;
};

}  // namespace gpt
