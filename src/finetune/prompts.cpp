#include "finetune/prompts.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "chat/chat_conversations.h"
#include "chat/model_text.h"
#include "finetune/tune_config.h"

namespace gpt {
namespace {

using json = nlohmann::ordered_json;

// The content of the last of a list of messages.
std::string last_content(const json& value, const std::string& place) {
  const json messages = parse_messages(value, place);
  if (messages.empty() || !messages.back().contains("content") || messages.back()["content"].is_null())
    fail("{}: expected messages with \"role\" and \"content\"", place);
  const nlohmann::ordered_json& content = messages.back()["content"];
  return content.is_string() ? content.get<std::string>() : joined_parts(content, place);
}

}  // namespace

PromptEncoder::PromptEncoder(const TaskSources& sources) : sources_(sources), ends_(eos_ids(sources.model)) {
  try {
    chat_ = std::make_unique<ChatTemplate>(
        model_chat_source(sources.base, sources.config.chat_template, "--template"), *sources.tokenizer);
    if (std::ranges::find(ends_, chat_->end_id()) == ends_.end()) ends_.push_back(chat_->end_id());
  } catch (const Error& error) {
    if (!sources.config.chat_template.empty()) throw;
    no_chat_ = error.what();
  }
}

std::string PromptEncoder::note() const {
  if (chat_ == nullptr || !has_texts_) return "";
  return "note: prompts that are texts are read as they are, without the model's chat template; for a model "
         "that "
         "chats write them as lists of messages\n";
}

const ChatTemplate& PromptEncoder::chat(const std::string& place) const {
  if (chat_ == nullptr) fail("{}: a list of messages takes a chat template: {}", place, no_chat_);
  return *chat_;
}

std::vector<int32_t> PromptEncoder::prompt(const json& value, const std::string& place) const {
  has_texts_ = has_texts_ || value.is_string();
  if (value.is_string())
    return prompt_ids(value.get<std::string>(), sources_.tokenizer.get(), sources_.model, false);
  if (!value.is_array()) fail("{}: expected a text or a list of messages, found {}", place, json_kind(value));
  last_content(value, place);
  if (value.back().value("role", "") == "assistant")
    fail("{}: the prompt ends with the assistant's message; expected the user's, which is answered", place);
  const ChatTemplate& by = chat(place);
  const json conversation = {{"messages", parse_messages(value, place)}};
  try {
    return by.encode_conversation(conversation, true);
  } catch (const Error& error) {
    fail("{}: {}", place, error.what());
  }
}

std::string PromptEncoder::text(const json& value, const std::string& place) {
  return value.is_string() ? value.get<std::string>() : last_content(value, place);
}

std::vector<int32_t> PromptEncoder::answer(const json& prompt, const json& value,
                                           const std::string& place) const {
  if (!value.is_string() && !value.is_array())
    fail("{}: expected a text or a list of messages, found {}", place, json_kind(value));
  if (value.is_array() && (value.size() != 1 || value.back().value("role", "") != "assistant"))
    fail("{}: expected an answer of one message of the assistant, found {} of them, the last one the {}'s",
         place, value.size(), value.empty() ? "nobody" : value.back().value("role", "nobody"));
  const std::string said = text(value, place);
  if (said.empty()) fail("{}: an answer is empty", place);
  std::vector<int32_t> ids = sources_.tokenizer->encode(said);
  if (prompt.is_array()) {
    ids.push_back(chat(place).end_id());
  } else if (const std::vector<int32_t> eos = eos_ids(sources_.model); !eos.empty()) {
    ids.push_back(eos.front());
  }
  return ids;
}

void write_chat_templates(const std::string& folder, const ChatTemplates& templates) {
  for (const auto& [name, jinja] : chat_template_files(templates)) {
    const std::filesystem::path file = std::filesystem::path(folder) / name;
    make_directories(file.parent_path().string());
    write_file_atomic(file.string(), jinja);
  }
}

}  // namespace gpt
