#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpt {

namespace detail {
class Regex;
}

// A regular expression of Python's `re` that must match a whole module name.
class ModulePattern {
 public:
  // Throws Error naming the pattern and its unsupported part.
  explicit ModulePattern(const std::string& pattern);

  bool matches(std::string_view module) const;

 private:
  std::shared_ptr<const detail::Regex> regex_;
};

// Selects modules as PEFT does: by a list of names, or by a regular expression. A name selects a module if it
// is the whole name of the module, or the part of this name after a dot.
class ModuleFilter {
 public:
  ModuleFilter() = default;  // selects no modules
  explicit ModuleFilter(std::vector<std::string> names) : names_(std::move(names)) {}
  explicit ModuleFilter(const std::string& pattern) : patterns_{ModulePattern(pattern)} {}

  bool is_pattern() const { return !patterns_.empty(); }
  bool has(std::string_view module) const;
  // Returns true if the list contains the whole name of a module.
  bool has_whole(std::string_view module) const;

 private:
  std::vector<std::string> names_;
  std::vector<ModulePattern> patterns_;  // at most one
};

}  // namespace gpt
