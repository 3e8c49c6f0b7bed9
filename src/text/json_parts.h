#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt::detail {

// Helpers for reading a tokenizer.json. `name` is the file name for messages.

// Returns a member of an object, or null if it is missing.
const nlohmann::json& member(const nlohmann::json& object, const char* key);
// Returns true if a feature is not used, which a missing value, null, false, 0, "" and [] all mean.
bool unused(const nlohmann::json& value);
// Returns true if the value, or the member "type" of an object, is equal to `type`.
bool has_type(const nlohmann::json& value, const char* type);
[[noreturn]] void fail_kind(const std::string& name, const std::string& found);
// Throws Error if one of the members `keys` is used.
void require_unused(const nlohmann::json& object, std::initializer_list<const char*> keys,
                    const std::string& name);
// Replaces a Sequence in the member `key` by its only step. `list` is the key of the list of steps.
void unwrap_sequence(nlohmann::json& root, const char* key, const char* list);

}  // namespace gpt::detail
