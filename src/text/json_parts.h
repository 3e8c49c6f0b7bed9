#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt::detail {

// Helpers for reading a tokenizer.json. `name` is the file name for messages.

// Returns a member of an object, or null if it is missing.
const nlohmann::json& member(const nlohmann::json& object, const char* key);
// Returns true if the value of a setting means that its feature is not used: a missing value, null, false, 0,
// "" or [].
bool unused(const nlohmann::json& value);
// Returns true if the value, or the member "type" of an object, is equal to `type`.
bool has_type(const nlohmann::json& value, const char* type);
[[noreturn]] void fail_kind(const std::string& name, const std::string& found);
// Throws Error if the object uses one of the settings `keys`.
void require_unused(const nlohmann::json& object, std::initializer_list<const char*> keys,
                    const std::string& name);
// If the member `key` is a Sequence with a single step, replaces the Sequence by this step. `list` is the key
// of the steps in a Sequence.
void unwrap_sequence(nlohmann::json& root, const char* key, const char* list);

}  // namespace gpt::detail
