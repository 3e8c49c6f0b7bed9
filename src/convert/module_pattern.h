#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

namespace detail {
class Regex;
}

// A regular expression of Python's `re` that names of modules match as a whole.
class ModulePattern {
 public:
  // Throws Error naming the pattern and the part of it that is not supported.
  explicit ModulePattern(const std::string& pattern);

  bool matches(std::string_view module) const;

 private:
  std::shared_ptr<const detail::Regex> regex_;
};

// The modules that PEFT finds by a setting: those of one of several names, whole or from a part on, or those
// that match a regular expression.
class ModuleFilter {
 public:
  ModuleFilter() = default;  // none
  explicit ModuleFilter(std::vector<std::string> names) : names_(std::move(names)) {}
  explicit ModuleFilter(const std::string& pattern) : patterns_{ModulePattern(pattern)} {}

  bool is_pattern() const { return !patterns_.empty(); }
  bool has(std::string_view module) const;
  // Whether it has the whole name of a module in its list.
  bool has_whole(std::string_view module) const;

 private:
  std::vector<std::string> names_;
  std::vector<ModulePattern> patterns_;  // one or none
};

}  // namespace gpt
