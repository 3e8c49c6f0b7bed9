#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// A regular expression of Python's `re`, as far as it means the same to PCRE2. Texts are UTF-8.
class PythonRegex {
 public:
  // Throws Error naming the pattern: for what PCRE2 does not take, for \Z and for flags that it lacks.
  explicit PythonRegex(const std::string& pattern);
  ~PythonRegex();
  PythonRegex(PythonRegex&&) noexcept;
  PythonRegex& operator=(PythonRegex&&) noexcept;

  // Every match in order, each with its groups (those that took no part are empty); without groups the whole
  // match. Throws Error where it takes too long.
  std::vector<std::vector<std::string>> find_all(std::string_view text) const;
  // The text without its matches: re.sub(pattern, "", text).
  std::string remove_from(std::string_view text) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace gpt
