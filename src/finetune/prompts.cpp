#include "finetune/prompts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/common_prefix.h"
#include "base/error.h"
#include "base/json.h"
#include "chat/chat_conversations.h"
#include "chat/chat_examples.h"
#include "chat/model_text.h"
#include "finetune/tune_config.h"
#include "text/chat_formats.h"

namespace gpt {
namespace {

using Json = nlohmann::ordered_json;

// Returns the text of the last message in a list of messages.
std::string last_content(const Json& value, const std::string& place) {
  const Json messages = parse_messages(value, place);
  if (messages.empty() || !messages.back().contains("content") || messages.back()["content"].is_null())
    fail("{}: expected messages with \"role\" and \"content\"", place);
  const Json& content = messages.back()["content"];
  return content.is_string() ? content.get<std::string>() : joined_parts(content, place);
}

void require_text_or_list(const Json& value, const std::string& place) {
  if (!value.is_string() && !value.is_array())
    fail("{}: expected a string or a list of messages, found {}", place, json_kind(value));
}

Json prompt_messages(const Json& value, const std::string& place) {
  last_content(value, place);
  if (value.back().value("role", "") == "assistant")
    fail("{}: expected the prompt to end with a user message, found an assistant message", place);
  return parse_messages(value, place);
}

// Returns the assistant's message of a response.
Json response_message(const Json& value, const std::string& place) {
  require_text_or_list(value, place);
  const Json messages = value.is_array() ? parse_messages(value, place)
                                         : Json::array({{{"role", "assistant"}, {"content", value}}});
  if (messages.size() != 1 || messages.back()["role"] != "assistant")
    fail(
        "{}: expected the response to be a single message with the role assistant, found {} messages (role "
        "of the last message: {})",
        place, messages.size(), messages.empty() ? "none" : messages.back()["role"].get<std::string>());
  const Json& message = messages.back();
  if (message.value("content", Json("")) == "" && !message.contains("tool_calls"))
    fail("{}: a response is empty", place);
  return message;
}

// Removes the ids after the last id with a nonzero weight.
ChatExample up_to_end(ChatExample example, const std::string& place) {
  while (!example.weights.empty() && example.weights.back() == 0) {
    example.weights.pop_back();
    example.ids.pop_back();
  }
  if (example.ids.empty()) fail("{}: the chat template omits the response", place);
  return example;
}

}  // namespace

ChatSource tuning_chat_source(const TaskSources& s) {
  if (s.config.chat_template.empty() && !has_chat_template(s.base))
    fail("{} has no chat template; choose the format for training, for example `template` chatml ({})",
         s.base.paths().front(), fmt::join(chat_format_names(), "|"));
  return model_chat_source(s.base, s.config.chat_template, "template");
}

PromptEncoder::PromptEncoder(const TaskSources& sources) : sources_(sources), ends_(eos_ids(sources.model)) {
  try {
    chat_ = std::make_unique<ChatTemplate>(tuning_chat_source(sources), *sources.tokenizer);
    if (std::ranges::find(ends_, chat_->end_id()) == ends_.end()) ends_.push_back(chat_->end_id());
  } catch (const Error& error) {
    if (!sources.config.chat_template.empty()) throw;
    no_chat_ = error.what();
  }
}

std::string PromptEncoder::note() const {
  if (chat_ == nullptr || !has_texts_) return "";
  return "note: prompts that are strings are used without the model's chat template; for a chat model, write "
         "the prompts as lists of messages\n";
}

const ChatTemplate& PromptEncoder::chat(const std::string& place) const {
  if (chat_ == nullptr) fail("{}: a list of messages requires a chat template: {}", place, no_chat_);
  return *chat_;
}

std::vector<int32_t> PromptEncoder::prompt(const Json& value, const Json& line,
                                           const std::string& place) const {
  require_text_or_list(value, place);
  has_texts_ = has_texts_ || value.is_string();
  if (value.is_string())
    return prompt_ids(value.get<std::string>(), sources_.tokenizer.get(), sources_.model, false);
  Json conversation = parse_template_names(line, place);
  conversation["messages"] = prompt_messages(value, place);
  const ChatTemplate& by = chat(place);
  try {
    return by.encode_conversation(conversation, true);
  } catch (const Error& error) {
    fail_because(error, "{}: {}", place, error.what());
  }
}

std::string PromptEncoder::text(const Json& value, const std::string& place) {
  return value.is_string() ? value.get<std::string>() : last_content(value, place);
}

ChatExample PromptEncoder::response(const Json& prompt, const Json& response, const Json& line,
                                    const std::string& place) const {
  require_text_or_list(prompt, place);
  has_texts_ = has_texts_ || prompt.is_string();
  const Json message = response_message(response, place);
  if (prompt.is_array()) return chat_response(prompt, message, line, place);
  return text_response(prompt.get<std::string>(), text(response, place));
}

ChatExample PromptEncoder::chat_response(const Json& prompt, const Json& message, const Json& line,
                                         const std::string& place) const {
  Json conversation = parse_template_names(line, place);
  conversation["messages"] = prompt_messages(prompt, place);
  conversation["messages"].push_back(message);
  const ChatTemplate& by = chat(place);
  ChatExample example;
  try {
    example = by.response(conversation);
  } catch (const Error& error) {
    fail_because(error, "{}: {}", place, error.what());
  }
  require_calls_written(conversation, example, by, place);
  return up_to_end(std::move(example), place);
}

ChatExample PromptEncoder::text_response(const std::string& prompt, const std::string& response) const {
  const auto ids_of = [&](const std::string& text) {
    return prompt_ids(text, sources_.tokenizer.get(), sources_.model, false);
  };
  const std::vector<int32_t> before = ids_of(prompt);
  ChatExample example{ids_of(prompt + response), {}};
  // An empty prompt is encoded as a special token, such as BOS. If the response were encoded alone, this
  // token could be missing.
  if (prompt.empty() && common_prefix(before, example.ids) < before.size())
    example.ids.insert(example.ids.begin(), before.begin(), before.end());
  const size_t begin = common_prefix(before, example.ids);
  if (const std::vector<int32_t> eos = eos_ids(sources_.model); !eos.empty())
    example.ids.push_back(eos.front());
  example.weights.assign(example.ids.size(), 1);
  std::fill_n(example.weights.begin(), begin, uint8_t{0});
  return example;
}

}  // namespace gpt
