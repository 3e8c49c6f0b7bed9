#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace gpt {

// Reads the scalars of a YAML text like PyYAML. yaml-cpp finds the beginning of each node, but it loses line
// ends of quoted and block scalars. The text of a scalar is therefore read from the source again.
class YamlScalars {
 public:
  // The source must be valid UTF-8 with \n as the only line end, and must outlive this object.
  explicit YamlScalars(std::string_view source) : source_(source) {}

  // Returns the text of a scalar. `at` is the byte where the node of the scalar begins, including its tag and
  // anchor. `parsed` is the text of the scalar as yaml-cpp returns it. `indent` is the column of the
  // innermost block collection, or -1 outside of all collections. Returns nothing if PyYAML rejects the
  // scalar or finds a different end of the scalar.
  std::optional<std::string> text(size_t at, const std::string& parsed, int indent) const;

  // Returns the column, in characters, of a block collection whose node begins at byte `at`.
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

// Returns the value of a plain scalar without a tag: a null, boolean, integer or fraction of YAML 1.1, or
// else text. Throws Error for an integer beyond 64 bits. Also throws Error for a date with a time, for "="
// and for "<<". These three are not text in PyYAML either.
nlohmann::ordered_json yaml_plain_value(const std::string& text);

// Returns the value of a scalar with the tag !!int, !!float, !!bool or !!null. `kind` is the last word of the
// tag. Throws Error for other tags, and for a text that does not match the tag.
nlohmann::ordered_json yaml_tagged_value(const std::string& kind, const std::string& text);

}  // namespace gpt
