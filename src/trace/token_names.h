#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace gpt {

// Converts token ids to text for display. The bytes of a token may be arbitrary. All functions except raw()
// return text that is safe to display.
class TokenNames {
 public:
  // `bytes` returns the bytes of a token id. An empty function means that there is no tokenizer.
  explicit TokenNames(std::function<std::string(int32_t)> bytes = {}) : bytes_(std::move(bytes)) {}

  bool known() const { return static_cast<bool>(bytes_); }
  std::string raw(int32_t id) const { return bytes_ ? bytes_(id) : std::string(); }
  // Returns the token text in quotes, cut to `width` columns. Without a tokenizer, returns the id, such as
  // "#17".
  std::string quoted(int32_t id, int width) const;
  // Returns the token text without quotes, cut to `width` columns. Spaces are shown as "·", so that the start
  // of a word is visible.
  std::string short_name(int32_t id, int width) const;
  // Returns the first `count` bytes of the token as hexadecimal text, such as "e2 96 81 61".
  std::string hex(int32_t id, size_t count) const;

 private:
  std::function<std::string(int32_t)> bytes_;
};

}  // namespace gpt
