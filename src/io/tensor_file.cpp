#include "io/tensor_file.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "io/printable.h"
#include "io/sorted_index.h"

namespace gpt {
namespace {

std::string_view name_of(const TensorInfo& tensor) {
  return tensor.name;
}

}  // namespace

void TensorFile::set_tensors(std::vector<TensorInfo> tensors, std::vector<UnsupportedTensor> unsupported) {
  tensors_ = std::move(tensors);
  unsupported_ = std::move(unsupported);
  by_name_ = sorted_index(tensors_, name_of);
  std::ranges::sort(unsupported_, [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto duplicate = [&](const std::string& name) {
    fail("{}: the tensor {} occurs twice", path_, printable(name));
  };
  if (const TensorInfo* tensor = find_duplicate(tensors_, by_name_, name_of)) duplicate(tensor->name);
  for (size_t i = 0; i < unsupported_.size(); ++i) {
    const std::string& name = unsupported_[i].name;
    if (i > 0 && unsupported_[i - 1].name == name) duplicate(name);
    if (find_sorted(tensors_, by_name_, name, name_of) != nullptr) duplicate(name);
  }
}

const TensorInfo* TensorFile::find(std::string_view name) const {
  if (const TensorInfo* tensor = find_sorted(tensors_, by_name_, name, name_of)) return tensor;
  const auto odd = std::ranges::lower_bound(unsupported_, name, {}, &UnsupportedTensor::name);
  if (odd != unsupported_.end() && odd->name == name) {
    fail("{}: tensor {} has the type {}, expected {}", path_, printable(name), odd->dtype, expected_);
  }
  return nullptr;
}

}  // namespace gpt
