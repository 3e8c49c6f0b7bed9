#include "chat/chat_conversations.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "text/chat_template.h"

namespace gpt {
namespace {

using Json = nlohmann::ordered_json;

// Parses JSON and keeps the order of the keys, because a template may write them in this order.
Json ordered(std::string_view text, const std::string& place) {
  return parse_json_document(text, place, {.max_bytes = uint64_t{16} << 20, .max_depth = 50});
}

std::string kind_of(const Json& value) {
  if (value.is_null()) return "nothing";
  return value.is_array() ? "a list" : std::string(json_kind(value));
}

// Maps a role in ShareGPT files to the role name used in this program.
std::string role_named(const std::string& from, const std::string& place) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"human", "user"},
                                                            {"user", "user"},
                                                            {"gpt", "assistant"},
                                                            {"assistant", "assistant"},
                                                            {"chatgpt", "assistant"},
                                                            {"bing", "assistant"},
                                                            {"bard", "assistant"},
                                                            {"model", "assistant"},
                                                            {"function_call", "assistant"},
                                                            {"system", "system"},
                                                            {"tool", "tool"},
                                                            {"observation", "tool"},
                                                            {"function_response", "tool"}};
  for (const auto& [name, role] : kNames) {
    if (from == name) return role;
  }
  fail("{}: expected \"from\" to be human, gpt, system, function_call or observation, found \"{}\"", place,
       printable_text(from, 32));
}

Json share_gpt_message(const Json& entry, const std::string& place) {
  const Json from = entry.value("from", Json()), value = entry.value("value", Json());
  if (!from.is_string()) fail("{}: expected \"from\" to be a string, found {}", place, kind_of(from));
  if (!value.is_string()) fail("{}: expected \"value\" to be a string, found {}", place, kind_of(value));
  const std::string name = from, text = value;
  Json message = {{"role", role_named(name, place)}};
  if (name != "function_call") {
    message["content"] = text;
    return message;
  }
  const Json call = ordered(text, place + ": a function_call");
  if (!call.is_object() || !call.value("name", Json()).is_string())
    fail("{}: expected the value of a function_call to be an object with \"name\" and \"arguments\"", place);
  message["content"] = "";
  message["tool_calls"] = Json::array({{{"type", "function"}, {"function", call}}});
  return message;
}

void check_call(Json& call, const std::string& place) {
  const bool has_function = call.is_object() && call.value("function", Json()).is_object();
  if (!has_function || !call["function"].value("name", Json()).is_string())
    fail("{}: expected a call in \"tool_calls\" to have a \"function\" with a \"name\"", place);
  Json& function = call["function"];
  const auto arguments = function.find("arguments");
  if (arguments == function.end() || !arguments->is_string()) return;
  Json parsed = ordered(arguments->get<std::string>(), place + ": \"arguments\"");
  if (!parsed.is_object())
    fail("{}: expected \"arguments\" to be an object, found {}", place, kind_of(parsed));
  *arguments = std::move(parsed);
}

// Checks that the content is a string or a list of text parts. The content may be missing only if the message
// has tool calls.
void check_content(const Json& message, const std::string& place) {
  const Json content = message.value("content", Json());
  if (content.is_string()) return;
  if (content.is_null() && !message.value("tool_calls", Json()).is_null()) return;
  if (!content.is_array())
    fail("{}: expected \"content\" to be a string or a list of parts, found {}", place, kind_of(content));
  joined_parts(content, place);  // throws if a part is not text
}

// Checks the "weight" of a message. As in OpenAI's fine-tuning data, weight 0 excludes the message from the
// loss. Weight 1, null and a missing weight include the message.
void check_weight(Json& message, const std::string& place) {
  const auto weight = message.find("weight");
  if (weight == message.end()) return;
  if (weight->is_null()) {
    message.erase("weight");
    return;
  }
  if (!weight->is_number() || (*weight != 0 && *weight != 1))
    fail("{}: expected \"weight\" to be 0 or 1, found {}", place, printable_text(json_text(*weight), 32));
}

void check_message(Json& message, const std::string& place) {
  if (!message.is_object()) fail("{}: expected an object, found {}", place, kind_of(message));
  const Json role = message.value("role", Json());
  if (!role.is_string()) fail("{}: expected \"role\" to be a string, found {}", place, kind_of(role));
  const std::string name = role;
  if (name != "system" && name != "developer" && name != "user" && name != "assistant" && name != "tool")
    fail("{}: expected the role system, developer, user, assistant or tool, found \"{}\"", place,
         printable_text(name, 32));
  check_content(message, place);
  check_weight(message, place);
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  if (name != "assistant")
    fail("{}: expected \"tool_calls\" only in messages of the assistant, found the role {}", place, name);
  if (calls->is_null()) {
    message.erase("tool_calls");
    return;
  }
  if (!calls->is_array()) fail("{}: expected \"tool_calls\" to be a list, found {}", place, kind_of(*calls));
  for (Json& call : *calls)
    check_call(call, place);
}

[[noreturn]] void fail_without_messages(const Json& row, const std::string& place) {
  constexpr size_t kShown = 8;
  std::vector<std::string> names;
  for (const auto& [name, value] : row.items())
    names.push_back('"' + printable_text(name, 32) + '"');
  fail("{}: expected \"messages\" or \"conversations\", found {}; write each conversation as {}", place,
       names.empty() ? "an empty object" : format_list(names, kShown),
       R"({"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]})");
}

Json messages_of(const Json& row, const std::string& place) {
  const bool share_gpt = !row.contains("messages");
  const char* key = share_gpt ? "conversations" : "messages";
  if (!row.contains(key)) fail_without_messages(row, place);
  if (!row[key].is_array()) fail("{}: expected \"{}\" to be a list, found {}", place, key, kind_of(row[key]));
  Json messages = Json::array();
  const auto system = row.find("system");
  if (share_gpt && system != row.end() && system->is_string() &&
      !system->get_ref<const std::string&>().empty())
    messages.push_back({{"role", "system"}, {"content", *system}});
  size_t number = 0;
  for (const Json& entry : row[key]) {
    const std::string here = fmt::format("{}: message {}", place, ++number);
    const bool plain = !share_gpt || (entry.is_object() && entry.contains("role"));
    if (!plain && !entry.is_object()) fail("{}: expected an object, found {}", here, kind_of(entry));
    Json message = plain ? entry : share_gpt_message(entry, here);
    check_message(message, here);
    messages.push_back(std::move(message));
  }
  return messages;
}

// Returns a member of a row, or null if it is missing. If the member is a string, the string is parsed as
// JSON.
Json opened(const Json& row, const char* name, const std::string& place) {
  const Json value = row.value(name, Json());
  if (!value.is_string()) return value;
  const auto& text = value.get_ref<const std::string&>();
  return text.empty() ? Json() : ordered(text, fmt::format("{}: \"{}\"", place, name));
}

}  // namespace

Json parse_conversation(std::string_view line, const std::string& place) {
  const Json row = ordered(line, place);
  if (!row.is_object()) fail("{}: expected an object, found {}", place, kind_of(row));
  Json conversation = {{"messages", messages_of(row, place)}};
  const Json& messages = conversation["messages"];
  if (messages.empty()) fail("{}: expected at least 1 message, found 0", place);
  if (std::ranges::none_of(messages, [](const Json& m) { return m["role"] == "assistant"; }))
    fail("{}: the conversation has no message of the assistant, so there is nothing to train on", place);
  conversation.update(parse_template_names(row, place));
  return conversation;
}

Json parse_template_names(const Json& row, const std::string& place) {
  Json names = Json::object();
  if (const Json tools = opened(row, "tools", place); !tools.is_null()) {
    if (!tools.is_array()) fail("{}: expected \"tools\" to be a list, found {}", place, kind_of(tools));
    names["tools"] = tools;
  }
  const Json more = opened(row, "chat_template_kwargs", place);
  if (more.is_null()) return names;
  if (!more.is_object())
    fail("{}: expected \"chat_template_kwargs\" to be an object, found {}", place, kind_of(more));
  for (const auto& [name, value] : more.items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt" || name.ends_with("_token"))
      fail("{}: \"chat_template_kwargs\" cannot set {}; leave it out", place, printable_text(name, 32));
    names[name] = value;
  }
  return names;
}

Json parse_messages(const Json& list, const std::string& place) {
  if (!list.is_array()) fail("{}: expected a list of messages, found {}", place, kind_of(list));
  Json messages = Json::array();
  for (const Json& entry : list) {
    messages.push_back(entry);
    check_message(messages.back(), fmt::format("{}: message {}", place, messages.size()));
  }
  return messages;
}

bool drop_oldest_turn(Json& conversation) {
  auto& messages = conversation["messages"].get_ref<Json::array_t&>();
  const auto is_user = [](const Json& message) { return message["role"] == "user"; };
  const auto first = std::ranges::find_if(messages, is_user);
  if (first == messages.end()) return false;
  const auto next = std::find_if(first + 1, messages.end(), is_user);
  const auto answers = [](const Json& message) { return message["role"] == "assistant"; };
  if (next == messages.end() || std::none_of(next, messages.end(), answers)) return false;
  messages.erase(first, next);
  return true;
}

}  // namespace gpt
