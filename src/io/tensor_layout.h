#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/safetensors_writer.h"
#include "io/tensor_info.h"

namespace gpt {

// Files whose tensors stand in a fixed order without names of their own (llama2.c, llm.c).

// A tensor of such a file, or one per layer: "NAME.0", "NAME.1", ...
struct TensorGroup {
  const char* name;
  bool per_layer;
  Shape shape;
  int64_t padding = 0;  // elements behind it that nobody reads
};

// The bytes of all groups behind a header; throws Error beginning with `name` when no file can have so many.
uint64_t layout_bytes(std::span<const TensorGroup> groups, int64_t layers, DType dtype, int64_t header_bytes,
                      const std::string& name);

// The tensors that follow a header, all of one type. `bytes` is as long as layout_bytes says.
std::vector<TensorInfo> layout_tensors(std::span<const TensorGroup> groups, int64_t layers, DType dtype,
                                       std::span<const std::byte> bytes, int64_t header_bytes);

// Writes header and tensors, found by name, to a temporary file that takes the place of `path` when complete.
void write_layout(const std::string& path, std::span<const std::byte> header,
                  std::span<const TensorGroup> groups, int64_t layers, DType dtype,
                  std::span<const NamedTensor> tensors);

}  // namespace gpt
