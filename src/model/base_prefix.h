#pragma once

#include <string>

namespace gpt {

// A tensor's name without the prefix that transformers' base models (those without a head) leave away.
inline std::string without_base_prefix(const std::string& name) {
  for (const std::string prefix : {"transformer.", "model."}) {
    if (name.rfind(prefix, 0) == 0) return name.substr(prefix.size());
  }
  return name;
}

}  // namespace gpt
