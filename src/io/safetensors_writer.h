#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace gpt {

class FileWriter;

// Receives the next bytes of a tensor, in chunks of any size. The caller may reuse the buffer after the call
// returns.
using EmitBytes = std::function<void(std::span<const std::byte>)>;

// A tensor to be written. `write` is called once and emits all bytes in row-major order. A transposed or
// concatenated tensor can therefore be emitted row by row without building it in memory.
struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::function<void(const EmitBytes& emit)> write;
};

// Creates a NamedTensor from a tensor in memory, which may be a column slice. `view` must stay valid until
// the tensor is written.
NamedTensor named_tensor(std::string name, const TensorView& view);
// Creates a NamedTensor that is written with `shape`. The shape may have any rank but must have as many
// elements as `view`, which must be dense.
NamedTensor named_tensor(std::string name, const TensorView& view, Shape shape);

// Returns the size in bytes for the tensor's shape and dtype. Rows of a quantized tensor must consist of
// whole quantization blocks. Throws Error if the size exceeds the maximum file size.
uint64_t tensor_bytes(const NamedTensor& tensor);

// Writes all bytes of a tensor. Asserts that the tensor emits exactly tensor_bytes(tensor) bytes.
void write_tensor(const NamedTensor& tensor, FileWriter& writer);

// Writes a safetensors file. The data section starts at a multiple of 64 bytes. Tensors with wider dtypes
// come first, so that every tensor is aligned to its dtype; otherwise the given order is kept. The data is
// streamed into a temporary file, which is fsynced and then renamed, so a crash or an error leaves the
// previous file unchanged. Throws Error if the disk is full, if the path is not writable, or if a name is
// empty, duplicate or not UTF-8.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// Creates a safetensors file that several processes will fill. One process calls this function, which writes
// the header and extends the file to its full size. The `write` functions of the tensors are not called.
// Throws Error in the same cases as write_safetensors.
void create_safetensors(const std::string& path, std::span<const NamedTensor> tensors);
// A range of a tensor's elements that starts at element `begin`.
struct TensorPart {
  std::string name;
  int64_t begin = 0;
  TensorView view;  // dense
};
// Writes parts of tensors into a file made by create_safetensors and fsyncs the file. Each process calls this
// function with its own parts. Throws Error if a part does not fit into the file or the disk is full.
void fill_safetensors(const std::string& path, std::span<const TensorPart> parts);

}  // namespace gpt
