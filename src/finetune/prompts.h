#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "finetune/task.h"
#include "text/chat_template.h"

namespace gpt {

// The chat template of --template, or the model's own. Throws Error with the formats to choose from if there
// is neither.
ChatSource tuning_chat_source(const TaskSources& sources);

// Prompts and responses of examples as token ids: a text as it is, or a list of messages by the model's
// template.
class PromptEncoder {
 public:
  using Json = nlohmann::ordered_json;

  explicit PromptEncoder(const TaskSources& sources);

  // The ids up to where a response begins. line: the example, whose "tools" and "chat_template_kwargs" a
  // template is given. Throws Error naming the place.
  std::vector<int32_t> prompt(const Json& value, const Json& line, const std::string& place) const;
  // The prompt as a reward is given it: the text, or that of the last message.
  static std::string text(const Json& value, const std::string& place);
  // A prompt with a response to it, whose tokens count, up to the one that ends it. response: a text, or a
  // list of one message of the assistant. After a list of messages they are the tokens that the template
  // writes for this message (ChatTemplate::response); after a text those of both texts together that are not
  // the prompt's.
  ChatExample response(const Json& prompt, const Json& response, const Json& line,
                       const std::string& place) const;
  // The chat templates of the model, which the fine-tuned model keeps; empty where there are none.
  ChatTemplates templates() const { return chat_ == nullptr ? ChatTemplates() : chat_->templates(); }
  // The tokens that end a response.
  const std::vector<int32_t>& ends() const { return ends_; }

  // For people: that prompts were texts although the model chats; a line, or "".
  std::string note() const;

 private:
  const ChatTemplate& chat(const std::string& place) const;
  ChatExample text_response(const std::string& prompt, const std::string& response) const;
  ChatExample chat_response(const Json& prompt, const Json& message, const Json& line,
                            const std::string& place) const;

  const TaskSources& sources_;
  std::vector<int32_t> ends_;
  std::unique_ptr<ChatTemplate> chat_;  // of a model that has one
  std::string no_chat_;                 // why it has none
  mutable bool has_texts_ = false;      // among the prompts so far
};

}  // namespace gpt
