#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// Bytes [begin, end) of a text that came from one place.
struct JinjaSpan {
  static constexpr int32_t kTemplate = -1, kContext = -2;

  size_t begin, end;
  int32_t origin;          // a message's index, the template itself, or another part of the context
  bool generated = false;  // inside of a generation block
};

// A text that knows where its bytes came from.
struct JinjaText {
  std::string text;
  std::vector<JinjaSpan> spans;  // contiguous ranges that cover the text; neighbours differ
  // The result of |safe or |escape (markupsafe's Markup): + escapes the other operand. Appending keeps it.
  bool safe = false;

  void append(std::string_view more, int32_t origin = JinjaSpan::kTemplate, bool generated = false);
  void append(const JinjaText& other, size_t begin, size_t end);  // its bytes [begin, end)
  void append(const JinjaText& other) { append(other, 0, other.text.size()); }
  JinjaText substr(size_t begin, size_t end) const;
  // The place of a byte before the end of the text.
  const JinjaSpan& span_at(size_t at) const;
  void mark_generated();
};

}  // namespace gpt
