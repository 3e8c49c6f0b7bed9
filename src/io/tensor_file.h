#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensor_info.h"

namespace gpt {

// A tensor of a type that its format knows and this program does not compute with.
struct UnsupportedTensor {
  std::string name;
  std::string dtype;  // as in the file: "BOOL", "F8_E4M3", ...
  Shape shape;
};

// An open file of named tensors, whatever its format.
class TensorFile {
 public:
  virtual ~TensorFile() = default;
  TensorFile(TensorFile&&) = default;
  TensorFile& operator=(TensorFile&&) = default;

  const std::string& path() const { return path_; }
  // No name occurs twice. Tensors of a type that this program does not have are left out.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::vector<UnsupportedTensor>& unsupported() const { return unsupported_; }  // by name
  // nullptr when there is no such tensor; throws Error when it was left out.
  const TensorInfo* find(std::string_view name) const;

 protected:
  // expected: ends the message about a tensor that was left out.
  explicit TensorFile(std::string path, std::string_view expected = "")
      : path_(std::move(path)), expected_(expected) {}
  // To be called once with all tensors, in the order of the format. Throws Error if a name occurs twice.
  void set_tensors(std::vector<TensorInfo> tensors, std::vector<UnsupportedTensor> unsupported = {});

 private:
  std::string path_;
  std::string_view expected_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  // indices into tensors_
  std::vector<UnsupportedTensor> unsupported_;
};

}  // namespace gpt
