#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

  const std::string& path() const override { return path_; }

  // In the order of their data; tensors of unsupported types are left out.
  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const std::vector<UnsupportedTensor>& unsupported() const { return unsupported_; }  // by name
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  const TensorInfo* find(std::string_view name) const override;

 private:
  void parse(std::span<const std::byte> bytes);
  void index_names();

  MappedFile file_;
  std::string path_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_
  std::vector<UnsupportedTensor> unsupported_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace gpt
