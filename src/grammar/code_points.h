#pragma once

#include <cstdint>
#include <vector>

namespace gpt::grammar {

// A set of Unicode scalar values, stored as sorted ranges that neither overlap nor touch. The set never
// contains surrogates.
class CodePointSet {
 public:
  static constexpr char32_t kLast = 0x10FFFF;

  CodePointSet() = default;
  // Creates the set of the code points from first to last, including both.
  CodePointSet(char32_t first, char32_t last) { add(first, last); }
  static CodePointSet all() { return {0, kLast}; }

  void add(char32_t first, char32_t last);
  void add(const CodePointSet& other);
  void remove(const CodePointSet& other);
  CodePointSet complement() const;
  bool contains(char32_t code) const;
  bool empty() const { return ranges_.empty(); }

  struct Range {
    char32_t first, last;
  };
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

// A sequence of 1 to 4 byte ranges. The sequence matches all byte strings whose i-th byte is in the i-th
// range.
struct Utf8Ranges {
  struct Byte {
    uint8_t first, last;
  };
  Byte bytes[4];
  int length;
};

// Returns byte ranges that match the UTF-8 encodings of the characters in a set. Source: Russ Cox, "Regular
// Expression Matching in the Wild" (RE2's UTF-8 ranges).
std::vector<Utf8Ranges> utf8_ranges(const CodePointSet& set);

}  // namespace gpt::grammar
