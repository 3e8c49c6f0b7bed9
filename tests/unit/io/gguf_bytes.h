#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "io/gguf.h"

namespace gpt {

// Builds valid and invalid GGUF files by hand.
struct GgufBytes {
  uint32_t version = 3;
  uint64_t n_entries = 0, n_tensors = 0;
  std::string entries, tensors;
  uint32_t alignment = 32;

  template <class T>
  static std::string raw(T value) {
    std::string s(sizeof value, '\0');
    std::memcpy(s.data(), &value, sizeof value);
    return s;
  }
  static std::string text(const std::string& s) { return raw<uint64_t>(s.size()) + s; }
  static std::string texts(const std::vector<std::string>& all) {
    std::string s = raw(GgufType::string) + raw<uint64_t>(all.size());
    for (const std::string& t : all)
      s += text(t);
    return s;
  }
  template <class T>
  static std::string numbers(GgufType type, const std::vector<T>& all) {
    std::string s = raw(type) + raw<uint64_t>(all.size());
    for (const T x : all)
      s += raw(x);
    return s;
  }

  GgufBytes& add(const std::string& key, GgufType type, const std::string& value) {
    ++n_entries;
    entries += text(key) + raw(type) + value;
    return *this;
  }
  GgufBytes& add(const std::string& key, const std::string& value) {
    return add(key, GgufType::string, text(value));
  }
  GgufBytes& add(const std::string& key, uint32_t value) { return add(key, GgufType::u32, raw(value)); }
  // `dims` are in file order, fastest dimension first.
  GgufBytes& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                    uint64_t offset) {
    ++n_tensors;
    tensors += text(name) + raw(static_cast<uint32_t>(dims.size()));
    for (const uint64_t d : dims)
      tensors += raw(d);
    tensors += raw(type) + raw(offset);
    return *this;
  }
  std::string file(const std::string& data = "") const {
    std::string s = "GGUF" + raw(version) + raw(n_tensors) + raw(n_entries) + entries + tensors;
    s.append((alignment - s.size() % alignment) % alignment, '\0');
    return s + data;
  }
};

}  // namespace gpt
