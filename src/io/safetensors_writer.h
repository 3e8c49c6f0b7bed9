#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace gpt {

class FileWriter;

// Takes the next bytes of a tensor, any number at a time; they may be reused when it returns.
using EmitBytes = std::function<void(std::span<const std::byte>)>;

// A tensor to be written. `write` is called once and hands over all bytes, row-major, in order: a
// transposed or concatenated tensor emits row by row and never exists in memory.
struct NamedTensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::function<void(const EmitBytes& emit)> write;
};

// A tensor whose numbers are in memory, column slices included; `view` must stay valid until written.
NamedTensor named_tensor(std::string name, const TensorView& view);
// The same with a shape of its own: any rank, equal in size to the dense `view`.
NamedTensor named_tensor(std::string name, const TensorView& view, Shape shape);

// The bytes that shape and type ask for; rows of a block format are whole blocks. Throws Error when they are
// more than any file can have.
uint64_t tensor_bytes(const NamedTensor& tensor);

// Hands all bytes of a tensor to a writer; they must be as many.
void write_tensor(const NamedTensor& tensor, FileWriter& writer);

// Writes a safetensors file. The body starts at a multiple of 64 bytes; wider types come first and else
// the given order holds, so that every tensor is aligned to its type. The data is streamed into
// a temporary file, which is fsynced and then renamed: a crash or error leaves what was there before. Throws
// Error when the disk is full or the place not writable, and when names are empty, duplicate or not
// UTF-8.
void write_safetensors(const std::string& path, std::span<const NamedTensor> tensors,
                       const std::map<std::string, std::string>& metadata = {});

// For a file that several processes write: one makes it in its full size, without numbers in it, from tensors
// whose `write` is not used. Throws Error as write_safetensors does.
void create_safetensors(const std::string& path, std::span<const NamedTensor> tensors);
// Numbers of a tensor from element `begin` on.
struct TensorPart {
  std::string name;
  int64_t begin = 0;
  TensorView view;  // dense
};
// Then each writes its parts into it and syncs them. Throws Error when a part is not in the file, or the disk
// is full.
void fill_safetensors(const std::string& path, std::span<const TensorPart> parts);

}  // namespace gpt
