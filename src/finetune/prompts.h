#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "finetune/task.h"
#include "text/chat_template.h"

namespace gpt {

// Prompts and answers of examples as token ids: a text as it is, or a list of messages by the model's
// template.
class PromptEncoder {
 public:
  explicit PromptEncoder(const TaskSources& sources);

  // The ids up to where an answer begins. Throws Error naming the place.
  std::vector<int32_t> prompt(const nlohmann::ordered_json& value, const std::string& place) const;
  // What it is for those who judge answers: the text, or the last message's.
  static std::string text(const nlohmann::ordered_json& value, const std::string& place);
  // The ids of an answer to such a prompt, with the token that ends it: a text, or a list of the assistant's
  // message.
  std::vector<int32_t> answer(const nlohmann::ordered_json& prompt, const nlohmann::ordered_json& value,
                              const std::string& place) const;
  // The chat templates of the model, which the fine-tuned model keeps; empty where there are none.
  ChatTemplates templates() const { return chat_ == nullptr ? ChatTemplates() : chat_->templates(); }
  // The tokens that end an answer.
  const std::vector<int32_t>& ends() const { return ends_; }

  // For people: that prompts were texts although the model chats; a line, or "".
  std::string note() const;

 private:
  const ChatTemplate& chat(const std::string& place) const;

  const TaskSources& sources_;
  std::vector<int32_t> ends_;
  std::unique_ptr<ChatTemplate> chat_;  // of a model that has one
  std::string no_chat_;                 // why it has none
  mutable bool has_texts_ = false;      // among the prompts so far
};

// Writes the chat templates of a fine-tuned model into its folder.
void write_chat_templates(const std::string& folder, const ChatTemplates& templates);

}  // namespace gpt
