#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gpt {

// What a YAML text may ask for.
struct YamlLimits {
  uint64_t max_bytes = uint64_t{4} << 20;
  int max_depth = 32;  // maps and lists inside each other
  // Total number of values; an alias counts as the values it refers to.
  int64_t max_values = int64_t{1} << 17, max_text_bytes = int64_t{64} << 20;
};

// The key under which a value tagged `!function module.name` keeps its name.
inline constexpr const char* kYamlFunction = "!function";

// Reads one YAML document as PyYAML's safe loader does: YAML 1.1's booleans (yes, no, on, off), numbers and
// nulls, quoted, plain and block scalars of any number of lines, anchors, aliases and merge keys; maps keep
// their order. A value tagged !function becomes an object with kYamlFunction; other tags are refused, as are
// texts that yaml-cpp, which parses the structure, delimits differently from PyYAML. `lines` gets the line of
// each key of the outermost map, from 1. Throws Error naming `what` and the line: for what is no YAML, equal
// keys, keys that are no text, limits.
nlohmann::ordered_json parse_yaml(std::string_view text, const std::string& what,
                                  std::map<std::string, int64_t>* lines = nullptr,
                                  const YamlLimits& limits = {});

}  // namespace gpt
