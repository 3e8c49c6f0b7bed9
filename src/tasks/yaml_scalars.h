#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// The scalars of a YAML text as PyYAML reads them. yaml-cpp finds where nodes begin, but loses line ends of
// quoted and block scalars, so their text is read from the source again.
class YamlScalars {
 public:
  // The source must be valid UTF-8 with \n as the only line end, and outlive this.
  explicit YamlScalars(std::string_view source) : source_(source) {}

  // The text of the scalar whose node, tag and anchor included, begins at byte `at`. `parsed` is the text
  // that yaml-cpp found. `indent` is the column of the innermost block collection, -1 outside of all. Returns
  // nothing where PyYAML refuses the scalar or finds a different extent.
  std::optional<std::string> text(size_t at, const std::string& parsed, int indent) const;

  // The column in characters of a block collection whose node begins at byte `at`.
  int column_of_collection(size_t at) const;

 private:
  size_t after_properties(size_t at) const;
  int column(size_t at) const;
  std::optional<std::string> single_quoted(size_t at) const;
  std::optional<std::string> double_quoted(size_t at) const;
  bool escape(size_t& at, std::string& out) const;
  bool fold_quoted(size_t& at, std::string& out) const;
  bool skip_breaks(size_t& at, std::string& breaks) const;
  std::optional<std::string> plain(size_t at, const std::string& parsed) const;
  std::optional<std::string> block(size_t at, int indent) const;

  std::string_view source_;
};

// The value of a plain scalar without a tag: YAML 1.1's nulls, booleans, integers and fractions, else text.
// Throws Error for an integer beyond 64 bits, for a date with a time and for "=", which PyYAML does not read
// as text either.
nlohmann::ordered_json yaml_plain_value(const std::string& text);

// The value of a scalar with the tag !!int, !!float, !!bool or !!null; `kind` is the tag's last word. Throws
// Error for other tags and for a text that is no such value.
nlohmann::ordered_json yaml_tagged_value(const std::string& kind, const std::string& text);

}  // namespace gpt
