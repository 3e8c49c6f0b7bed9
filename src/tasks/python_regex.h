#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// A regular expression of Python 3.11's `re`, matched by PCRE2. Texts are UTF-8; bytes that
// are none count as U+FFFD.
class PythonRegex {
 public:
  // Throws Error naming the pattern: for what Python refuses and for what pcre2_of_python does not support.
  explicit PythonRegex(const std::string& pattern);
  ~PythonRegex();
  PythonRegex(PythonRegex&&) noexcept;
  PythonRegex& operator=(PythonRegex&&) noexcept;

  // Every match in order, each with its groups (those that took no part are empty); without groups the whole
  // match. Throws Error where a match takes too many steps or too much memory.
  std::vector<std::vector<std::string>> find_all(std::string_view bytes) const;
  // The text without its matches: re.sub(pattern, "", text).
  std::string remove_from(std::string_view bytes) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace gpt
