#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gpt {

// Parses a JSONL line into a conversation for ChatTemplate: {"messages": [...], "tools": [...]}. Accepts
// OpenAI's format ("messages" with "role", "content" and "tool_calls", and "tools") and the ShareGPT format
// ("conversations" with "from" and "value", and "system"). The content is a string or a list of parts of type
// "text". Function arguments that are a JSON string are replaced by the object in it. Throws Error that names
// `place` if a key has the wrong type, if a role is unknown, or if the conversation has no messages or no
// assistant message.
nlohmann::ordered_json parse_conversation(std::string_view line, const std::string& place);

// Parses a list of messages in OpenAI's format with any roles.
nlohmann::ordered_json parse_messages(const nlohmann::ordered_json& list, const std::string& place);

// Returns the other template variables of a row: "tools" and the members of "chat_template_kwargs" (TRL's
// columns). The values of both keys may also be strings that contain JSON. Throws Error if a value is not
// valid. The error message contains `place`.
nlohmann::ordered_json parse_template_names(const nlohmann::ordered_json& row, const std::string& place);

// Removes the oldest turn of a conversation: the first user message and the responses to it. Messages before
// the first user message are kept. Returns false if there is no later turn with a response.
bool drop_oldest_turn(nlohmann::ordered_json& conversation);

}  // namespace gpt
