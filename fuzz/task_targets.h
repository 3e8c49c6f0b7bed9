#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "tasks/python_regex.h"
#include "tasks/python_text.h"
#include "tasks/yaml.h"

namespace gpt {

// Returns 1 if the bytes were accepted, or 0 if they were rejected with gpt::Error, as in targets.h.
inline int read_yaml(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    std::map<std::string, int64_t> lines;
    const nlohmann::ordered_json value = parse_yaml(text, "fuzz", &lines, {.max_values = 4096});
    GPT_ASSERT(!value.is_object() || lines.size() <= value.size());
    const std::string dumped = value.dump();  // infinity becomes null
    GPT_ASSERT(nlohmann::ordered_json::parse(dumped).dump() == dumped);
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

// Parses Python literals, the form in which templates write lists of choices. The parser must not throw.
inline int read_literal(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool valid = python_literal(text).has_value();
  return valid ? 1 : 0;
}

// Splits the bytes at the first zero byte into a pattern and a text. If the pattern has no match, remove_from
// must not shorten the text.
inline int read_python_regex(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\0');
  try {
    const PythonRegex regex{std::string(text.substr(0, end))};
    const std::string_view searched = end == std::string_view::npos ? "" : text.substr(end + 1);
    const bool found = !regex.find_all(searched).empty();
    GPT_ASSERT(found || regex.remove_from(searched).size() >= searched.size());
    return 1;
  } catch (const Error&) {
    return 0;
  }
}

// The first byte selects the reader of the other bytes.
inline int fuzz_task_yaml(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  if (data[0] == '\'') return read_literal(data + 1, size - 1);
  if (data[0] == '/') return read_python_regex(data + 1, size - 1);
  return read_yaml(data, size);
}

}  // namespace gpt
