#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/gguf.h"
#include "io/safetensors_writer.h"

namespace gpt {

// Collects the metadata of a GGUF file in insertion order. Each key may be added only once.
class GgufMetadata {
 public:
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, bool value);
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }
  void add(std::string_view key, std::span<const std::string> values);
  void add(std::string_view key, std::span<const int32_t> values);
  void add(std::string_view key, std::span<const float> values);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }  // in file encoding

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType type, uint64_t n);
  std::string bytes_;
  uint64_t count_ = 0;
};

// Writes a GGUF file of version 3 with an alignment of 32 and the tensors in the given order. Supported
// dtypes are fp32, bf16, fp16 and the quantized types; rows of a quantized tensor must consist of whole
// quantization blocks. The data is streamed into `path`.tmp, which is fsynced and then renamed, so a crash or
// an error leaves the previous file unchanged. Throws Error if the disk is full, if the path is not writable,
// or if a tensor name is empty, duplicate or longer than ggml's limit of 63 bytes.
void write_gguf_file(const std::string& path, const GgufMetadata& metadata,
                     std::span<const NamedTensor> tensors);

}  // namespace gpt
