#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors_writer.h"
#include "io/tensor_info.h"

namespace gpt {

// Helpers for file formats that store tensors in a fixed order without names (llama2.c, llm.c).

// Describes one tensor of such a file, or one tensor per layer with the names "NAME.0", "NAME.1", ...
struct TensorGroup {
  const char* name;
  bool per_layer;
  Shape shape;
  int64_t padding = 0;  // number of unused elements after each tensor
};

// Returns the size of the header and all groups in bytes. Throws Error, with a message that starts with
// `name`, if the size exceeds the maximum file size.
uint64_t layout_bytes(std::span<const TensorGroup> groups, int64_t layers, DType dtype, int64_t header_bytes,
                      const std::string& name);

// Returns the tensors that follow the header. All tensors have the same dtype. `bytes` must have the length
// that layout_bytes returns.
std::vector<TensorInfo> layout_tensors(std::span<const TensorGroup> groups, int64_t layers, DType dtype,
                                       std::span<const std::byte> bytes, int64_t header_bytes);

// Writes the header and the tensors, which are looked up by name, to a temporary file. When it is complete,
// the file replaces `path`.
void write_layout(const std::string& path, std::span<const std::byte> header,
                  std::span<const TensorGroup> groups, int64_t layers, DType dtype,
                  std::span<const NamedTensor> tensors);

}  // namespace gpt
