#include "io/safetensors_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "base/shared_file.h"
#include "io/safetensors.h"
#include "tensor/device.h"

namespace gpt {
namespace {

// Alignment of the data section: the size of a cache line and of the widest vector register.
constexpr size_t kAlignment = 64;

std::string quoted(const std::string& text, const std::string& path) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::exception&) {
    fail("cannot write {}: expected names and metadata in UTF-8, found {}", path, printable(text));
  }
}

void check_tensors(std::span<const NamedTensor> tensors, const std::string& path) {
  if (tensors.size() > SafetensorsLimits::tensors) {
    fail("cannot write {}: expected at most {} tensors, found {}", path, SafetensorsLimits::tensors,
         tensors.size());
  }
  std::set<std::string_view> names;
  for (const NamedTensor& tensor : tensors) {
    const std::string& name = tensor.name;
    if (name.empty() || name == "__metadata__" || name.size() > SafetensorsLimits::name_bytes) {
      fail("cannot write {}: {} cannot be the name of a tensor", path, printable(name));
    }
    GPT_ASSERT(tensor.shape.size() <= SafetensorsLimits::rank);
    if (!names.insert(name).second)
      fail("cannot write {}: two tensors have the name {}", path, printable(name));
  }
}

// Returns the header: its length and the JSON text, padded with spaces. `tensors` must be in data order.
std::string make_header(std::span<const NamedTensor* const> tensors,
                        const std::map<std::string, std::string>& metadata, const std::string& path) {
  std::string text = "{";
  if (!metadata.empty()) {
    text += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata)
      text += quoted(key, path) + ":" + quoted(value, path) + ",";
    text.back() = '}';
    text += ",";
  }
  uint64_t begin = 0;
  for (const NamedTensor* tensor : tensors) {
    const uint64_t end = begin + tensor_bytes(*tensor);
    text += fmt::format("{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}},",
                        quoted(tensor->name, path), safetensors_type_name(tensor->dtype),
                        shape_string(tensor->shape), begin, end);
    begin = end;
  }
  if (text.back() == ',') text.pop_back();
  text += "}";
  constexpr size_t kLengthBytes = 8;
  text.append((kAlignment - (kLengthBytes + text.size()) % kAlignment) % kAlignment, ' ');
  if (text.size() > SafetensorsLimits::header_bytes) {
    fail("cannot write {}: expected a header of at most {} bytes, found {}", path,
         SafetensorsLimits::header_bytes, text.size());
  }
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
  return length + text;
}

// Returns the tensors in data order: wider dtypes first.
std::vector<const NamedTensor*> order_of_data(std::span<const NamedTensor> tensors, const std::string& path) {
  check_tensors(tensors, path);
  auto order = transformed(tensors, [](const NamedTensor& tensor) { return &tensor; });
  std::ranges::stable_sort(order, [](const NamedTensor* a, const NamedTensor* b) {
    return dtype_size(a->dtype) > dtype_size(b->dtype);
  });
  return order;
}

}  // namespace

NamedTensor named_tensor(std::string name, const TensorView& view) {
  const Shape shape(view.dims().begin(), view.dims().end());
  const auto write = [view](const EmitBytes& emit) {
    const MappedView access(view, Access::read);
    const auto* data = access->as<const std::byte>();
    const size_t size = dtype_size(view.dtype);
    if (view.size() == 0) return;
    if (access->dense()) {
      emit({data, static_cast<size_t>(view.size()) * size});
      return;
    }
    for (int64_t r = 0; r < view.rows(); ++r) {
      emit({data + static_cast<size_t>(r * view.ld) * size, static_cast<size_t>(view.cols()) * size});
    }
  };
  return {std::move(name), view.dtype, shape, write};
}

NamedTensor named_tensor(std::string name, const TensorView& view, Shape shape) {
  GPT_ASSERT(checked_size(shape, name) == view.size());
  NamedTensor tensor = named_tensor(std::move(name), view);
  tensor.shape = std::move(shape);
  return tensor;
}

uint64_t tensor_bytes(const NamedTensor& tensor) {
  const BlockSize block = block_size(tensor.dtype);
  const std::string what = fmt::format("tensor {}", printable(tensor.name));
  GPT_ASSERT((tensor.shape.empty() ? 1 : tensor.shape.back()) % block.elements == 0);
  const int64_t blocks = checked_size(tensor.shape, what) / block.elements;
  return static_cast<uint64_t>(checked_size(Shape{blocks, block.bytes}, what));
}

void write_tensor(const NamedTensor& tensor, FileWriter& writer) {
  uint64_t left = tensor_bytes(tensor);
  tensor.write([&](std::span<const std::byte> bytes) {
    GPT_ASSERT(bytes.size() <= left);
    left -= bytes.size();
    writer.write(bytes);
  });
  GPT_ASSERT(left == 0);
}

void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const auto order = order_of_data(tensors, path);
  const std::string header = make_header(order, metadata, path);
  write_file_atomic(path, [&](FileWriter& writer) {
    writer.write(header);
    for (const NamedTensor* tensor : order)
      write_tensor(*tensor, writer);
  });
}

void create_safetensors(const std::string& path, std::span<const NamedTensor> tensors) {
  const auto order = order_of_data(tensors, path);
  const std::string header = make_header(order, {}, path);
  write_file_atomic(path, [&](FileWriter& writer) { writer.write(header); });
  const uint64_t size = sum_of(order, [](const NamedTensor* tensor) { return tensor_bytes(*tensor); });
  SharedFile file(path);
  file.extend(header.size() + size);
}

void fill_safetensors(const std::string& path, std::span<const TensorPart> parts) {
  const MappedFile mapped(path);
  const SafetensorsFile known(mapped.bytes(), path);
  SharedFile file(path);
  for (const TensorPart& part : parts) {
    const TensorInfo* const tensor = known.find(part.name);
    const size_t size = dtype_size(part.view.dtype);
    const uint64_t begin = static_cast<uint64_t>(part.begin) * size,
                   bytes = static_cast<uint64_t>(part.view.size()) * size;
    if (tensor == nullptr || tensor->dtype != part.view.dtype || begin + bytes > tensor->bytes.size())
      fail("cannot write {}: the file has no space for the tensor {}", path, printable(part.name));
    const auto offset = static_cast<uint64_t>(tensor->bytes.data() - mapped.bytes().data());
    const MappedView access(part.view, Access::read);
    file.write(offset + begin, {access->as<const std::byte>(), bytes});
  }
  file.sync();
}

}  // namespace gpt
