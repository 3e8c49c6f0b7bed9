#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace gpt {

// The meaning of a setting's value, for shell completion and for the dtype names of other programs.
enum class ValueKind : uint8_t { plain, path, model, preset, model_or_preset, dtype, model_or_dtype };

// The definition of a setting: a config key or a setting of fine-tuning. Validation, help texts, completion,
// man pages, docs/config.md and the names of other programs are all derived from this struct.
struct Key {
  const char* name;  // in JSON; the flag is --name with dashes
  const char* group = "";
  const char* help = "";   // a noun phrase or an imperative with the unit, without the default
  const char* unset = "";  // how the value is derived if it is not given: "n_embd / n_head"
  // Inclusive range of a number.
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  const char* choices = "";  // known values of a string, as "a|b|c"; enumerations have their own
  const char* aliases = "";  // names in other programs, as "a|b|c"; a name with a dash is only a flag: "-c"
  const char* value = "";    // name of the value in help texts; if empty, it follows from the type
  ValueKind kind = ValueKind::plain;
  bool is_common = false;  // shown in the short help of a command
};

enum class KeyType : uint8_t { boolean, integer, number, choice, text, list, object };

// Describes a Key, together with the type and the default of its config field.
struct KeyInfo {
  std::string name, group, help, unset;
  KeyType type = KeyType::text;
  std::string fallback;  // the default as text
  double min = 0, max = 0;
  std::vector<std::string> choices = {};  // all valid values, or for text the known ones
  std::vector<std::string> aliases = {};
  std::string value = {};
  ValueKind kind = ValueKind::plain;
  bool is_common = false;
  bool is_model = false;  // a key of ModelConfig

  bool is_list() const { return type == KeyType::list; }
  bool is_bool() const { return type == KeyType::boolean; }
  bool has_range() const { return type == KeyType::integer || type == KeyType::number; }
  // Returns the default in the form that help texts show: `unset` if the value is derived, else `fallback`.
  const std::string& shown_default() const { return unset.empty() ? fallback : unset; }
};

}  // namespace gpt
