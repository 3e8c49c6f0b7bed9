#pragma once

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
  virtual const std::string& path() const = 0;
  // No name occurs twice. Tensors of a type that this program does not have are left out.
  virtual const std::vector<TensorInfo>& tensors() const = 0;
  // nullptr when there is no such tensor; throws Error when it was left out.
  virtual const TensorInfo* find(std::string_view name) const = 0;
};

}  // namespace gpt
