#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "tasks/python_text.h"
#include "tasks/yaml.h"

namespace gpt {

// As in targets.h: 1 if the bytes were accepted, 0 if they were rejected with gpt::Error.
inline int fuzz_yaml(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    std::map<std::string, int64_t> lines;
    const nlohmann::ordered_json value = parse_yaml(text, "fuzz", &lines, {.max_values = 4096});
    GPT_ASSERT(!value.is_object() || lines.size() <= value.size());
    GPT_ASSERT(nlohmann::ordered_json::parse(value.dump()) == value);
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

// Python's literals, as templates write lists of choices. Neither throws.
inline int fuzz_literal(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool valid = python_literal(text).has_value();
  return valid ? 1 : 0;
}

}  // namespace gpt
