#include "convert/module_pattern.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "model/adapter_settings.h"
#include "text/regex.h"

namespace gpt {
namespace {

// Translates Python's regular expression syntax to the syntax of detail::Regex. Module names are ASCII.
std::string translated(std::string_view pattern) {
  constexpr std::string_view kWord = "0-9A-Za-z_";
  std::string out;
  bool in_set = false;
  for (size_t at = 0; at < pattern.size(); ++at) {
    const char c = pattern[at];
    if (c == '[' && !in_set) in_set = true;
    if (c == ']') in_set = false;
    if (c != '\\' || at + 1 == pattern.size()) {
      out += c;
      continue;
    }
    const char next = pattern[++at];
    if (next == 'w') {
      out += in_set ? std::string(kWord) : fmt::format("[{}]", kWord);
    } else if (next == 'W' && !in_set) {
      out += fmt::format("[^{}]", kWord);
    } else if (next == 'Z') {
      out += "\\z";
    } else {
      out += {c, next};
    }
  }
  return out;
}

}  // namespace

ModulePattern::ModulePattern(const std::string& pattern) {
  try {
    regex_ = std::make_shared<detail::Regex>("\\A(?:" + translated(pattern) + ")\\z");
  } catch (const Error& error) {
    fail_because(error, "{}: {}", printable(pattern), error.what());
  }
}

bool ModulePattern::matches(std::string_view module) const {
  detail::Regex::Search search(*regex_);
  search.begin(module);
  return search.next().has_value();
}

bool ModuleFilter::has(std::string_view module) const {
  if (is_pattern()) return patterns_[0].matches(module);
  return std::ranges::any_of(names_, [&](const auto& name) { return is_module_named(module, name); });
}

bool ModuleFilter::has_whole(std::string_view module) const {
  return std::ranges::find(names_, module) != names_.end();
}

}  // namespace gpt
