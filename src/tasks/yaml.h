#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gpt {

// Limits for a YAML text.
struct YamlLimits {
  uint64_t max_bytes = uint64_t{4} << 20;
  int max_depth = 32;  // maximum nesting of maps and lists
  // Total number of values; an alias counts as the values it refers to.
  int64_t max_values = int64_t{1} << 17, max_text_bytes = int64_t{64} << 20;
};

// A value tagged `!function module.name` becomes an object that stores the name under this key.
inline constexpr const char* kYamlFunction = "!function";

// Parses one YAML document like PyYAML's safe loader. Supports the booleans (yes, no, on, off), numbers and
// nulls of YAML 1.1; quoted, plain and block scalars of any number of lines; anchors, aliases and merge keys.
// Maps keep their order. A value tagged !function becomes an object with the key kYamlFunction. Rejects other
// tags. yaml-cpp parses the structure. If yaml-cpp and PyYAML find different ends of a scalar, the scalar is
// rejected. `lines` receives the line of each key in the outermost map, counted from 1. Throws Error naming
// `what` and the line for invalid YAML, duplicate keys, keys that are lists or maps, and exceeded limits.
nlohmann::ordered_json parse_yaml(std::string_view text, const std::string& what,
                                  std::map<std::string, int64_t>* lines = nullptr,
                                  const YamlLimits& limits = {});

}  // namespace gpt
