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

// Types of metadata, numbered as in files.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

// A key of the metadata and what it has, as it stands in the file: `count` values of a type, little-endian
// and without gaps, strings behind their length of 8 bytes. All of it was checked.
struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::u8;  // of the elements, when it is an array
  bool is_array = false;
  uint64_t count = 1;
  std::span<const std::byte> bytes;
};

// A type of tensors: its number and name in ggml, the size of its blocks, and what it is here, if anything.
struct GgmlType {
  uint32_t number;
  std::string_view name;
  BlockSize block;
  std::optional<DType> dtype;
};
const GgmlType* find_ggml_type(uint32_t number);  // nullptr when unknown
const GgmlType& ggml_type(DType dtype);           // of a type that ggml has; all but u8

struct GgufTensorEntry {
  std::string name;
  const GgmlType* type = nullptr;
  Shape shape;         // as everywhere here, the dimension whose elements lie side by side last
  uint64_t begin = 0;  // bytes from the start of the data
  uint64_t size = 0;
};

struct GgufHeader {
  uint32_t version = 0;
  std::vector<GgufEntry> metadata;       // in the order of the file
  std::vector<GgufTensorEntry> tensors;  // in the order of the file
  uint64_t data_begin = 0;               // bytes from the start of the file
};

// What the reader accepts and the writer keeps to. Together with the size of the file, which every count is
// checked against, they bound the memory that a hostile header can take.
struct GgufLimits {
  static constexpr uint64_t tensors = uint64_t{1} << 18;
  static constexpr uint64_t metadata_entries = uint64_t{1} << 16;
  static constexpr uint64_t name_bytes = 1024;                   // of a key or a tensor
  static constexpr uint64_t string_bytes = uint64_t{16} << 20;   // of a value
  static constexpr uint64_t array_elements = uint64_t{1} << 26;  // 256 times the largest vocabularies
  static constexpr uint32_t rank = 4;                            // ggml's own
  static constexpr uint32_t alignment = 1 << 20;
};

inline constexpr uint32_t kGgufVersion = 3;
inline constexpr uint32_t kGgufAlignment = 32;  // where the file does not say
inline constexpr const char* kGgufAlignmentKey = "general.alignment";

// Parses the header of a whole file and checks everything except that names are unique: types, lengths,
// counts, shapes and places of tensors. Nested arrays are refused. Throws Error naming `what` and the key
// or tensor.
GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& what);

// A GGUF file (version 2 or 3, little-endian), mapped and lazy: opening reads the header only, and checks
// all of it: counts and lengths against the file, types, unique keys and names, the alignment, shapes, and
// that tensors lie inside the file without overlap. Anything else throws Error naming the file and the key
// or tensor. Source: the format's description, ggml, docs/gguf.md; where ggml is laxer this reader is strict.
class GgufFile : public TensorFile {
 public:
  explicit GgufFile(const std::string& path);
  // The same for bytes in memory, which must outlive the object; `what` names them in errors.
  GgufFile(std::span<const std::byte> bytes, const std::string& what);

  uint32_t version() const { return version_; }

  const std::vector<GgufEntry>& metadata() const { return metadata_; }  // in the order of the file
  const GgufEntry* entry(std::string_view key) const;                   // nullptr when there is none
  bool has(std::string_view key) const { return entry(key) != nullptr; }

  // The value of a key, nothing when there is no such key. Throws Error when it is of another kind. Integers
  // may be of any width that fits int64, numbers also integers; they need not be finite.
  std::optional<std::string_view> string(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::vector<std::string_view>> strings(std::string_view key) const;
  std::optional<std::vector<int64_t>> integers(std::string_view key) const;
  std::optional<std::vector<float>> numbers(std::string_view key) const;

  // The same; throws Error when there is no such key.
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
