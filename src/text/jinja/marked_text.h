#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// A range [begin, end) of a text in which all bytes have the same origin.
struct JinjaSpan {
  static constexpr int32_t kTemplate = -1, kContext = -2;

  size_t begin, end;
  int32_t origin;          // index of a message, or kTemplate or kContext
  bool generated = false;  // true inside a generation block
};

// A text that stores the origin of each of its bytes.
struct JinjaText {
  std::string text;
  std::vector<JinjaSpan> spans;  // contiguous spans that cover the text; adjacent spans differ
  // True if the text is the result of |safe or |escape (markupsafe's Markup). The operator + with a safe text
  // escapes the other operand. append() does not change this flag.
  bool safe = false;

  void append(std::string_view more, int32_t origin = JinjaSpan::kTemplate, bool generated = false);
  void append(const JinjaText& other, size_t begin, size_t end);  // appends bytes [begin, end) of `other`
  void append(const JinjaText& other) { append(other, 0, other.text.size()); }
  JinjaText substr(size_t begin, size_t end) const;
  // Returns the span that contains a byte. `at` must be smaller than the size of the text.
  const JinjaSpan& span_at(size_t at) const;
  void mark_generated();
};

}  // namespace gpt
