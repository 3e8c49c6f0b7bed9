#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "io/gguf_header.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"

namespace gpt {

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

 private:
  void parse(std::span<const std::byte> bytes);
  const GgufEntry* typed(std::string_view key, bool array, bool (*fits)(GgufType), const char* kind) const;
  template <class T>
  T needed(std::optional<T> value, std::string_view key) const;

  MappedFile file_;
  uint32_t version_ = 0;
  std::vector<GgufEntry> metadata_;
  std::vector<uint32_t> by_key_;  // indices into metadata_
};

}  // namespace gpt
