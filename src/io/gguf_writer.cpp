#include "io/gguf_writer.h"

#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/printable.h"

namespace gpt {
namespace {

constexpr size_t kLongestName = 63;  // ggml's limit for tensor names: GGML_MAX_NAME - 1

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_string(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out.append(text);
}

uint64_t padding(uint64_t n) {
  return (kGgufAlignment - n % kGgufAlignment) % kGgufAlignment;
}

std::string make_header(const GgufMetadata& metadata, std::span<const NamedTensor> tensors,
                        const std::string& path) {
  std::string header = "GGUF";
  put(header, kGgufVersion);
  put<uint64_t>(header, tensors.size());
  put(header, metadata.count());
  header += metadata.bytes();
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    const std::string& name = tensor.name;
    if (name.empty() || name.size() > kLongestName || !names.insert(name).second) {
      fail("cannot write {}: {} cannot be the name of a tensor", path, printable(name));
    }
    GPT_ASSERT(tensor.shape.size() <= GgufLimits::rank);
    put_string(header, name);
    put(header, static_cast<uint32_t>(tensor.shape.size()));
    for (auto d = tensor.shape.rbegin(); d != tensor.shape.rend(); ++d)
      put(header, *d);
    put(header, ggml_type(tensor.dtype).number);
    put(header, offset);
    const uint64_t bytes = tensor_bytes(tensor);
    offset += bytes + padding(bytes);
  }
  header.append(padding(header.size()), '\0');
  return header;
}

}  // namespace

void GgufMetadata::begin(std::string_view key, GgufType type) {
  ++count_;
  put_string(bytes_, key);
  put(bytes_, type);
}
void GgufMetadata::begin_array(std::string_view key, GgufType type, uint64_t n) {
  begin(key, GgufType::array);
  put(bytes_, type);
  put(bytes_, n);
}

void GgufMetadata::add(std::string_view key, uint32_t value) {
  begin(key, GgufType::u32);
  put(bytes_, value);
}
void GgufMetadata::add(std::string_view key, float value) {
  begin(key, GgufType::f32);
  put(bytes_, value);
}
void GgufMetadata::add(std::string_view key, bool value) {
  begin(key, GgufType::boolean);
  put<uint8_t>(bytes_, value ? 1 : 0);
}
void GgufMetadata::add(std::string_view key, std::string_view value) {
  begin(key, GgufType::string);
  put_string(bytes_, value);
}
void GgufMetadata::add(std::string_view key, std::span<const std::string> values) {
  begin_array(key, GgufType::string, values.size());
  for (const std::string& value : values)
    put_string(bytes_, value);
}
void GgufMetadata::add(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, GgufType::i32, values.size());
  for (const int32_t value : values)
    put(bytes_, value);
}
void GgufMetadata::add(std::string_view key, std::span<const float> values) {
  begin_array(key, GgufType::f32, values.size());
  for (const float value : values)
    put(bytes_, value);
}

void write_gguf_file(const std::string& path, const GgufMetadata& metadata,
                     std::span<const NamedTensor> tensors) {
  const std::string header = make_header(metadata, tensors, path);
  write_file_atomic(path, [&](FileWriter& writer) {
    writer.write(header);
    for (const NamedTensor& tensor : tensors) {
      write_tensor(tensor, writer);
      writer.write(std::string(padding(tensor_bytes(tensor)), '\0'));
    }
  });
}

}  // namespace gpt
