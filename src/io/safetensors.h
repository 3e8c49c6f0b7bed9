#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "io/tensor_file.h"

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

 private:
  void parse(std::span<const std::byte> bytes);

  MappedFile file_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace gpt
