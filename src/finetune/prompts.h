#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "finetune/task.h"
#include "text/chat_template.h"

namespace gpt {

// Returns the chat template given with --template, or the model's own template. If there is neither, throws
// Error listing the available formats.
ChatSource tuning_chat_source(const TaskSources& sources);

// Encodes the prompts and responses of examples as token ids. Texts are encoded directly. Lists of messages
// are encoded with the model's chat template.
class PromptEncoder {
 public:
  using Json = nlohmann::ordered_json;

  explicit PromptEncoder(const TaskSources& sources);

  // Returns the token ids of a prompt, up to the position where the response begins. `line` is the whole
  // example; its "tools" and "chat_template_kwargs" are passed to the chat template. Throws Error naming the
  // place.
  std::vector<int32_t> prompt(const Json& value, const Json& line, const std::string& place) const;
  // Returns the text of a prompt for reward functions: the prompt itself, or the text of its last message.
  static std::string text(const Json& value, const std::string& place);
  // Returns a prompt with a response. The tokens of the response, including its end token, have weight 1.
  // `response` is a text or a list with a single assistant message. If the prompt is a list of messages, the
  // response consists of the tokens that the chat template writes for the assistant message
  // (ChatTemplate::response). If the prompt is a text, prompt and response are encoded together, and the
  // response consists of the tokens that differ from the encoding of the prompt alone.
  ChatExample response(const Json& prompt, const Json& response, const Json& line,
                       const std::string& place) const;
  // Returns the chat templates of the model, which the fine-tuned model keeps. The result is empty if the
  // model has no chat templates.
  ChatTemplates templates() const { return chat_ == nullptr ? ChatTemplates() : chat_->templates(); }
  // Returns the tokens that end a response.
  const std::vector<int32_t>& ends() const { return ends_; }

  // Returns a warning for the terminal if the prompts were texts but the model has a chat template. Otherwise
  // returns "".
  std::string note() const;

 private:
  const ChatTemplate& chat(const std::string& place) const;
  ChatExample text_response(const std::string& prompt, const std::string& response) const;
  ChatExample chat_response(const Json& prompt, const Json& message, const Json& line,
                            const std::string& place) const;

  const TaskSources& sources_;
  std::vector<int32_t> ends_;
  std::unique_ptr<ChatTemplate> chat_;  // null if the model has no chat template
  std::string no_chat_;                 // reason why chat_ is null
  mutable bool has_texts_ = false;      // true if any prompt so far was a text
};

}  // namespace gpt
