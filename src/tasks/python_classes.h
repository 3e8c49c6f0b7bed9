#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

// A character class of a Python regular expression, translated to PCRE2.
class PythonClass {
 public:
  enum class Category : uint8_t { digit, space, word };

  // Adds the code points first .. last.
  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  // Adds \d, \s or \w, or if `negated` \D, \S or \W. If `ascii`, only ASCII characters belong to the
  // category.
  void add(Category category, bool negated, bool ascii);
  void negate() { negated_ = true; }
  // Adds the characters that re.IGNORECASE treats as equal to the characters added so far.
  void ignore_case(bool ascii);

  // Returns a PCRE2 item that matches one character and can be repeated.
  std::string pcre2() const;

 private:
  struct Range {
    char32_t first, last;
  };

  std::vector<Range> ranges_;
  std::string properties_;                 // content for one bracket expression
  std::vector<std::string> alternatives_;  // complete bracket expressions
  bool negated_ = false;
};

}  // namespace gpt
