#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

// A class of characters in a regular expression of Python, written for PCRE2.
class PythonClass {
 public:
  enum class Category : uint8_t { digit, space, word };

  // Code points first .. last.
  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  // \d, \s, \w; negated \D, \S, \W. ascii: of ASCII characters alone.
  void add(Category category, bool negated, bool ascii);
  void negate() { negated_ = true; }
  // Adds the characters that re.IGNORECASE matches with those that were added.
  void ignore_case(bool ascii);

  // An item that matches one character and can be repeated.
  std::string pcre2() const;

 private:
  struct Range {
    char32_t first, last;
  };

  std::vector<Range> ranges_;
  std::string properties_;                 // within brackets
  std::vector<std::string> alternatives_;  // classes of their own
  bool negated_ = false;
};

}  // namespace gpt
