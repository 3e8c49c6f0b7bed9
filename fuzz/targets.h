#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "io/gguf.h"
#include "io/llama2c.h"
#include "io/llmc.h"
#include "io/safetensors.h"
#include "io/tensor_file.h"
#include "io/torch_file.h"

// Entry points of the fuzzers. Each passes the bytes to a parser and returns 1 if they were accepted, or 0 if
// they were rejected with gpt::Error. Anything else, such as another exception or a failed check, is a bug
// and is not caught.
namespace gpt {

// Checks that the shape and the size of a tensor agree. Reads each byte once, so that sanitizers detect an
// invalid range.
inline void check_tensor(const TensorInfo& tensor) {
  const auto size = static_cast<uint64_t>(row_bytes(tensor.dtype, checked_size(tensor.shape, tensor.name)));
  GPT_ASSERT(size == tensor.bytes.size());
  unsigned sum = 0;
  for (const std::byte b : tensor.bytes)
    sum += std::to_integer<unsigned>(b);
  volatile unsigned sink = sum;
  static_cast<void>(sink);
}

// Also checks that the tensor's bytes are inside the file.
inline void check_tensor(const TensorInfo& tensor, std::span<const std::byte> file) {
  check_tensor(tensor);
  GPT_ASSERT(tensor.bytes.empty() ||
             (tensor.bytes.data() >= file.data() &&
              tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size()));
}

inline int fuzz_safetensors(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const SafetensorsFile file(bytes, "fuzz");
    for (const TensorInfo& tensor : file.tensors()) {
      check_tensor(tensor, bytes);
      GPT_ASSERT(file.find(tensor.name) == &tensor);
    }
    GPT_ASSERT(file.find("") == nullptr);
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

inline int fuzz_json(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const nlohmann::json tree = parse_json(text, "fuzz");
    // An accepted value must survive a round trip through text.
    GPT_ASSERT(parse_json(tree.dump(), "fuzz") == tree);
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

inline int fuzz_llama2c(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const Llama2cFile file(bytes, "fuzz");
    for (const TensorInfo& tensor : file.tensors())
      check_tensor(tensor);  // tensors of version 2 are copies, so they are not inside the file
    GPT_ASSERT(file.find("tok_emb") != nullptr);
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

inline int fuzz_llmc(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const LlmcFile file(bytes, "fuzz");
    for (const TensorInfo& tensor : file.tensors())
      check_tensor(tensor, bytes);
    GPT_ASSERT(file.find("wte") == &file.tensors().front());
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

inline int fuzz_torch(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const TorchFile file(bytes, "fuzz");
    for (const TensorInfo& tensor : file.tensors()) {
      check_tensor(tensor);  // views that are not contiguous are copies, so they are not inside the file
      GPT_ASSERT(file.find(tensor.name) == &tensor);
    }
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

inline int fuzz_index(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const auto& [file, tensors] : parse_shard_index(text, ".safetensors", "fuzz")) {
      GPT_ASSERT(file.find('/') == std::string::npos && file.front() != '.' && !tensors.empty());
    }
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

// Reads the value of a key with every getter. One of the getters must fit.
inline void read_value(const GgufFile& file, std::string_view key) {
  int fitting = 0;
  const auto attempt = [&](auto&& get) {
    try {
      fitting += get().has_value() ? 1 : 0;
    } catch (const Error&) {
    }
  };
  attempt([&] { return file.string(key); });
  attempt([&] { return file.integer(key); });
  attempt([&] { return file.number(key); });
  attempt([&] { return file.boolean(key); });
  attempt([&] { return file.strings(key); });
  attempt([&] { return file.integers(key); });
  attempt([&] { return file.numbers(key); });
  const GgufEntry& e = *file.entry(key);
  GPT_ASSERT(fitting > 0 || (e.is_array && e.type == GgufType::boolean) || e.type == GgufType::u64);
}

inline int fuzz_gguf(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  try {
    const GgufFile file(bytes, "fuzz");
    for (const TensorInfo& tensor : file.tensors()) {
      check_tensor(tensor, bytes);
      GPT_ASSERT(file.find(tensor.name) == &tensor);
    }
    for (const GgufEntry& e : file.metadata())
      read_value(file, e.key);
    GPT_ASSERT(file.find("") == nullptr && !file.has(""));
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace gpt
