#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/gguf.h"
#include "io/safetensors_writer.h"

namespace gpt {

// The metadata of a GGUF file, in the order in which they are added. A key is added once.
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
  const std::string& bytes() const { return bytes_; }  // as they stand in the file

 private:
  void begin(std::string_view key, GgufType type);
  void begin_array(std::string_view key, GgufType type, uint64_t n);
  std::string bytes_;
  uint64_t count_ = 0;
};

// Writes a GGUF file of version 3 with an alignment of 32, tensors in the given order. Their types are fp32,
// bf16, fp16 or block formats, rows whole blocks. The data is streamed into `path`.tmp, which is fsynced and
// then renamed: a crash or error leaves what was there before. Throws Error when the disk is full or the
// place not writable, and when names are empty, duplicate or longer than ggml's 63 bytes.
void write_gguf_file(const std::string& path, const GgufMetadata& metadata,
                     std::span<const NamedTensor> tensors);

}  // namespace gpt
