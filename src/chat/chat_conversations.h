#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gpt {

// A line of JSONL as a conversation for ChatTemplate: {"messages": [...], "tools": [...]}. Takes what
// OpenAI's files have ("messages" of "role" and "content", "tool_calls", "tools") and ShareGPT's
// ("conversations" of "from" and "value", "system"). A content is a string or a list of parts of the type
// "text"; arguments of calls that are text become the object that they spell. Throws Error that names `place`
// for other keys' kinds, for roles unknown, for a conversation without messages or without one of the
// assistant.
nlohmann::ordered_json parse_conversation(std::string_view line, const std::string& place);

// The same for a list of messages as OpenAI has them, of any roles.
nlohmann::ordered_json parse_messages(const nlohmann::ordered_json& list, const std::string& place);

// What a row has besides its messages for the template: "tools", and the names in "chat_template_kwargs"
// (TRL's columns); each also as a text of JSON. Throws Error that names `place`.
nlohmann::ordered_json parse_template_names(const nlohmann::ordered_json& row, const std::string& place);

// The same conversation without its oldest turn: what the user said first and the answers to it; messages in
// front of that stay. False where there is only one turn.
bool drop_oldest_turn(nlohmann::ordered_json& conversation);

}  // namespace gpt
