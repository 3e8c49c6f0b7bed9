#include "io/tensor_layout.h"

#include <fmt/core.h>

#include <map>

#include "base/file.h"

namespace gpt {
namespace {

int64_t count_of(const TensorGroup& group, int64_t layers) {
  return group.per_layer ? layers : 1;
}

std::string name_of(const TensorGroup& group, int64_t i) {
  return group.per_layer ? fmt::format("{}.{}", group.name, i) : group.name;
}

// Returns the tensors in file order. Asserts that no tensor is missing and that all shapes and dtypes match.
std::vector<const NamedTensor*> in_order(std::span<const TensorGroup> groups, int64_t layers, DType dtype,
                                         std::span<const NamedTensor> tensors) {
  std::map<std::string_view, const NamedTensor*> by_name;
  for (const NamedTensor& tensor : tensors)
    by_name[tensor.name] = &tensor;
  std::vector<const NamedTensor*> order;
  for (const TensorGroup& group : groups) {
    for (int64_t i = 0; i < count_of(group, layers); ++i) {
      const auto at = by_name.find(name_of(group, i));
      GPT_ASSERT(at != by_name.end() && at->second->shape == group.shape && at->second->dtype == dtype);
      order.push_back(at->second);
    }
  }
  GPT_ASSERT(order.size() == tensors.size());
  return order;
}

}  // namespace

uint64_t layout_bytes(std::span<const TensorGroup> groups, int64_t layers, DType dtype, int64_t header_bytes,
                      const std::string& name) {
  int64_t total = header_bytes;
  for (const TensorGroup& group : groups) {
    int64_t elements = 0;
    if (__builtin_add_overflow(checked_size(group.shape, name), group.padding, &elements) ||
        __builtin_add_overflow(
            total,
            checked_size(Shape{elements, count_of(group, layers), static_cast<int64_t>(dtype_size(dtype))},
                         name),
            &total)) {
      fail("{}: its header requires more bytes than a file can have", name);
    }
  }
  return static_cast<uint64_t>(total);
}

std::vector<TensorInfo> layout_tensors(std::span<const TensorGroup> groups, int64_t layers, DType dtype,
                                       std::span<const std::byte> bytes, int64_t header_bytes) {
  std::vector<TensorInfo> tensors;
  auto offset = static_cast<size_t>(header_bytes);
  for (const TensorGroup& group : groups) {
    const auto size = static_cast<size_t>(checked_size(group.shape, group.name)) * dtype_size(dtype);
    for (int64_t i = 0; i < count_of(group, layers); ++i) {
      tensors.push_back({name_of(group, i), dtype, group.shape, bytes.subspan(offset, size)});
      offset += size + static_cast<size_t>(group.padding) * dtype_size(dtype);
    }
  }
  return tensors;
}

void write_layout(const std::string& path, std::span<const std::byte> header,
                  std::span<const TensorGroup> groups, int64_t layers, DType dtype,
                  std::span<const NamedTensor> tensors) {
  const std::vector<const NamedTensor*> order = in_order(groups, layers, dtype, tensors);
  write_file_atomic(path, [&](FileWriter& writer) {
    writer.write(header);
    size_t next = 0;
    for (const TensorGroup& group : groups) {
      const std::vector<std::byte> padding(static_cast<size_t>(group.padding) * dtype_size(dtype));
      for (int64_t i = 0; i < count_of(group, layers); ++i) {
        write_tensor(*order[next++], writer);
        writer.write(padding);
      }
    }
  });
}

}  // namespace gpt
