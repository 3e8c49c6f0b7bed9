#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

// A regular expression of Python 3.11's `re`, matched by PCRE2. Texts are UTF-8; invalid bytes are read as
// U+FFFD.
class PythonRegex {
 public:
  // Throws Error naming the pattern if Python rejects it or pcre2_of_python does not support it.
  explicit PythonRegex(const std::string& pattern);
  ~PythonRegex();
  PythonRegex(PythonRegex&&) noexcept;
  PythonRegex& operator=(PythonRegex&&) noexcept;

  // Returns every match in order, as a list of its groups. Groups that did not take part in the match are
  // empty. If the pattern has no groups, the list has the whole match. Throws Error if a match takes too many
  // steps or too much memory.
  std::vector<std::vector<std::string>> find_all(std::string_view bytes) const;
  // Returns the text without its matches, like re.sub(pattern, "", text).
  std::string remove_from(std::string_view bytes) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace gpt
