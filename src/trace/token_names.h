#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace gpt {

// Token ids as a reader sees them. Bytes come from outside and may be anything; what this gives is safe to
// show.
class TokenNames {
 public:
  // `bytes` gives the bytes of an id; empty function: there is no tokenizer.
  explicit TokenNames(std::function<std::string(int32_t)> bytes = {}) : bytes_(std::move(bytes)) {}

  bool known() const { return static_cast<bool>(bytes_); }
  std::string raw(int32_t id) const { return bytes_ ? bytes_(id) : std::string(); }
  // In quotes, so that spaces show, at most `width` columns; "#17" without a tokenizer.
  std::string quoted(int32_t id, int width) const;
  // Without quotes, spaces as "·" so that words are told from their continuations.
  std::string short_name(int32_t id, int width) const;
  // "e2 96 81 61", at most `count` bytes.
  std::string hex(int32_t id, size_t count) const;

 private:
  std::function<std::string(int32_t)> bytes_;
};

}  // namespace gpt
