#pragma once

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gpt::detail {

// Reading a tokenizer.json: `name` stands for the file in messages.

// A member of an object, or null.
const nlohmann::json& member(const nlohmann::json& object, const char* key);
// Absent, null, false, "" and [] all mean that a feature is not used.
bool unused(const nlohmann::json& value);
// Whether the value, or the member "type" of an object, is this string.
bool has_type(const nlohmann::json& value, const char* type);
[[noreturn]] void fail_kind(const std::string& name, const std::string& found);
// Throws Error where one of the members is used.
void require_unused(const nlohmann::json& object, std::initializer_list<const char*> keys,
                    const std::string& name);
// Replaces a Sequence of one step in the member `key` by that step. `list`: the name of the list of steps.
void unwrap_sequence(nlohmann::json& root, const char* key, const char* list);

}  // namespace gpt::detail
