#include "serve/openai/chat_prompt.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "serve/api_error.h"
#include "serve/openai/truncation.h"

namespace gpt::serve {
namespace {

using nlohmann::json;
using Ordered = nlohmann::ordered_json;

// Checks that the content of a message is a string or a list of text parts.
void check_content(const Ordered& content, const std::string& place) {
  if (content.is_string()) return;
  if (!content.is_array()) fail_field(place, "expected a string or a list of parts");
  try {
    joined_parts(content, "the message");
  } catch (const Error& error) {
    fail_field(place, "{}; this model only accepts text", error.what());
  }
}

// Parses the arguments of tool calls. Clients send them as a string of JSON, but templates write them as an
// object.
void open_arguments(Ordered& message) {
  if (!message.contains("tool_calls") || !message["tool_calls"].is_array()) return;
  for (Ordered& call : message["tool_calls"]) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Ordered& function = call["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    const std::string text = function["arguments"];
    try {
      Ordered arguments = parse_json_document(text, "arguments");
      if (arguments.is_object()) function["arguments"] = std::move(arguments);
    } catch (const Error&) {  // the string is kept
    }
  }
}

Ordered read_messages(const Ordered& messages, std::string_view jinja) {
  if (!messages.is_array())
    fail_field("messages", "expected a list of messages, found {}", json_kind(messages));
  if (messages.empty()) fail_field("messages", "expected at least one message, found none");
  const bool knows_developer = jinja.find("developer") != std::string_view::npos;
  Ordered list = Ordered::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string place = fmt::format("messages.{}", i);
    if (!messages[i].is_object()) fail_field(place, "expected an object");
    Ordered message = messages[i];
    if (!message.contains("role") || !message["role"].is_string())
      fail_field(place + ".role", "expected a string");
    if (message["role"] == "developer" && !knows_developer) message["role"] = "system";
    const bool has_content = message.contains("content") && !message["content"].is_null();
    if (!has_content && message["role"] != "assistant") fail_field(place + ".content", "expected a string");
    if (has_content) check_content(message["content"], place + ".content");
    open_arguments(message);
    list.push_back(std::move(message));
  }
  return list;
}

// Adds the variables of "chat_template_kwargs". Variables that the server itself sets cannot be changed.
void add_template_names(const Fields& fields, const Ordered& body, Ordered& conversation) {
  const json* names = fields.find("chat_template_kwargs");
  if (names == nullptr) return;
  const Fields checked(*names, "chat_template_kwargs.");
  for (const auto& [name, value] : body["chat_template_kwargs"].items()) {
    if (name == "messages" || name == "tools" || name == "add_generation_prompt" || name.ends_with("_token"))
      fail_field("chat_template_kwargs." + name, "this variable is set by the server; leave it out");
    conversation[name] = value;
  }
}

// Describes the tools that the response may or must call.
struct ToolChoice {
  bool none = false, required = false;
  std::string name = {};  // name of the tool that must be called; empty: any
};

ToolChoice read_tool_choice(const Fields& fields) {
  const json* choice = fields.find("tool_choice");
  if (choice == nullptr) return {};
  if (choice->is_string()) {
    const auto word = fields.choice("tool_choice", {"none", "auto", "required"});
    return {.none = word == "none", .required = word == "required"};
  }
  const Fields named(*choice, "tool_choice.");
  if (named.text("type") != "function")
    throw ApiError(400, "tool_choice.type: this server supports \"function\" only", "tool_choice.type",
                   "unsupported_parameter");
  const json* function = named.find("function");
  const auto name =
      Fields(function != nullptr ? *function : json::object(), "tool_choice.function.").text("name");
  if (!name) fail_field("tool_choice.function.name", "expected the name of a tool, found none");
  return {.required = true, .name = *name};
}

void check_tools(const json& tools, const Fields& fields) {
  if (!tools.is_array()) fields.fail("tools", "a list", tools);
  for (size_t i = 0; i < tools.size(); ++i) {
    const Fields tool(tools[i], fmt::format("tools.{}.", i));
    const json* function = tool.find("function");
    if (tool.text("type") != "function" || function == nullptr)
      fail_field(fmt::format("tools.{}", i),
                 "expected {{\"type\": \"function\", \"function\": {{\"name\", ...}}}}");
    const std::string prefix = fmt::format("tools.{}.function.", i);
    const Fields named(*function, prefix);
    if (!named.text("name")) fail_field(prefix + "name", "expected a string, found none");
    named.text("description");
    const json* parameters = named.find("parameters");
    if (parameters != nullptr && !parameters->is_object())
      named.fail("parameters", "a JSON schema", *parameters);
  }
}

// Returns the grammar of the calls that the response may contain.
AnswerGrammar allowed_calls(const ToolChoice& choice, const Ordered& tools, ToolFormat format, bool several) {
  Ordered allowed = Ordered::array();
  for (const Ordered& tool : tools) {
    if (choice.name.empty() || tool["function"]["name"] == choice.name) allowed.push_back(tool);
  }
  if (allowed.empty())
    fail_field("tool_choice.function.name", "expected one of the tools, found \"{}\"",
               printable_text(choice.name, 64));
  return tool_call_grammar(allowed, format, several);
}

// Determines whether the response may or must call tools. If so, passes the tools to the template.
void add_tools(const Fields& fields, const Ordered& body, const ChatTemplate& format, Ordered& conversation,
               ChatPrompt& prompt) {
  const ToolChoice choice = read_tool_choice(fields);
  const bool several = fields.boolean("parallel_tool_calls").value_or(true);
  const json* tools = fields.find("tools");
  if (tools == nullptr || tools->empty()) {
    if (choice.required) fail_field("tool_choice", "requires \"tools\"");
    return;
  }
  if (choice.none) return;
  check_tools(*tools, fields);
  const auto found = tool_format_of(format.tool_jinja());
  if (!found)
    throw ApiError(400,
                   fmt::format("tools: {} has no format for tool calls that this server supports; leave them "
                               "out, or set \"tool_choice\": \"none\"",
                               format.built_in() ? "the chat format " + format.name()
                                                 : "the chat template of this model"),
                   "tools", "unsupported_parameter");
  conversation["tools"] = body["tools"];
  prompt.tools = {.format = *found, .one_call = !several};
  prompt.calls = allowed_calls(choice, body["tools"], *found, several);
  prompt.must_call = choice.required;
  for (const Ordered& tool : body["tools"])
    prompt.tools->names.push_back(tool["function"]["name"]);
}

}  // namespace

ChatPrompt read_chat_prompt(const Fields& fields, std::string_view text, const ServedModel& model) {
  const ChatTemplate& format = model.chat_template();
  if (fields.find("messages") == nullptr) fail_field("messages", "expected a list of messages, found none");
  const Ordered body = parse_body_document(text);
  Ordered conversation = {{"messages", read_messages(body["messages"], format.jinja())}};
  ChatPrompt prompt;
  add_tools(fields, body, format, conversation, prompt);
  add_template_names(fields, body, conversation);
  const bool last_is_answer = conversation["messages"].back()["role"] == "assistant";
  const bool generates = fields.boolean("add_generation_prompt").value_or(!last_is_answer);
  prompt.continues = fields.boolean("continue_final_message").value_or(last_is_answer && !generates);
  if (prompt.continues && !last_is_answer)
    fail_field("continue_final_message", "expected the last message to have the role \"assistant\"");
  const auto encode = [&](const Ordered& messages) {
    return prompt.continues ? format.encode_to_continue(messages)
                            : format.encode_conversation(messages, generates || last_is_answer);
  };
  try {
    prompt.ids = encode(conversation);
    const auto truncation = Truncation::read(fields, model.n_ctx());
    if (truncation && truncation->applies_to(std::ssize(prompt.ids))) {
      ShorterConversation rest = forget_turns(conversation, *truncation, encode);
      prompt.ids = std::move(rest.ids);
      prompt.forgotten = rest.removed;
    }
  } catch (const Error& error) {
    fail_field("messages", "{}", error.what());
  }
  return prompt;
}

void refuse_parse_special(const Fields& fields) {
  if (fields.boolean("parse_special").value_or(false))
    fail_field(
        "parse_special",
        "only supported for plain text, because messages are never read as special tokens; leave it out");
}

}  // namespace gpt::serve
