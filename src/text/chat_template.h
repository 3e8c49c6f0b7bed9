#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "text/chat_formats.h"
#include "text/jinja/jinja.h"
#include "text/tokenizer.h"

namespace gpt {

// Joins the texts of content parts with newlines. Throws Error for a part whose type is not "text". The error
// message begins with `place`.
std::string joined_parts(const nlohmann::ordered_json& parts, const std::string& place);

struct ChatMessage {
  std::string role;  // "system", "developer", "user", "assistant" or "tool"
  std::string content;
};

// A training example: the ids of a conversation and their weights in the loss.
struct ChatExample {
  std::vector<int32_t> ids;
  std::vector<uint8_t> weights;  // 1 for the assistant's tokens, including end tokens; otherwise 0
};

// Converts conversations to token ids with a chat template. Only text that is part of the template can become
// special tokens. Message contents, roles and tools are always encoded as plain text. Training, chat and the
// server all use this class.
class ChatTemplate {
 public:
  // The tokenizer must outlive this object. Throws Error if the template cannot be run, if the tokenizer
  // lacks a special token of the template, or if the template writes no special token after an assistant
  // message.
  ChatTemplate(const ChatSource& source, const Tokenizer& tokenizer);
  ChatTemplate(ChatFormat format, const Tokenizer& tokenizer)
      : ChatTemplate(chat_source(format), tokenizer) {}

  // Returns the ids of a conversation. If `generate` is true, the ids end where the assistant's next message
  // begins. The result equals the result of apply_chat_template in transformers if no content contains the
  // name of a special token. Throws Error if the template rejects the roles or their order, or if the
  // tokenizer cannot encode the text.
  std::vector<int32_t> encode(std::span<const ChatMessage> messages, bool generate) const;

  // Returns the ids of a conversation in the format of OpenAI's API. The object has "messages", which may
  // contain "tool_calls", "name", "tool_call_id" and "reasoning_content". The object may also have "tools"
  // and other variables of the template. The content of a message may be a list of parts of the type "text".
  // If the model has a template for tools, conversations with "tools" use that template. Throws the errors of
  // `encode`.
  std::vector<int32_t> encode_conversation(const nlohmann::ordered_json& conversation, bool generate) const;

  // Returns the ids of a conversation up to the end of the text in its last message, so that the model
  // continues this message. The template's output after that text is dropped. White space that the template
  // trims is also dropped, as with continue_final_message of transformers. Throws the errors of `encode`.
  // Also throws Error if the last message has no text or if the template does not write its text.
  std::vector<int32_t> encode_to_continue(const nlohmann::ordered_json& conversation) const;

  // Returns a training example. In each assistant message, the tokens from the end of the prompt to the end
  // token have weight 1. If the template has generation blocks, only the tokens in these blocks have weight
  // 1. All tokens of a message with "weight" 0 have weight 0. Throws the errors of `encode`.
  ChatExample example(const nlohmann::ordered_json& conversation) const;
  // Returns an example in which only the tokens of the last message have weight 1. The last message is the
  // response of the assistant, and the messages before it are the prompt. Generation blocks are ignored,
  // because the tokens of the response are compared with tokens sampled after the prompt.
  ChatExample response(const nlohmann::ordered_json& conversation) const;

  // Returns the ids that follow the end token of an assistant message: the next user message, up to the
  // beginning of the next assistant message. `before` is the conversation so far, and its last message is the
  // assistant's. Returns nullopt if the template would change the ids of the conversation so far. Throws the
  // errors of `encode`.
  std::optional<std::vector<int32_t>> encode_turn(std::span<const ChatMessage> before,
                                                  const std::string& user) const;
  // Returns the ids that follow a short example conversation.
  std::vector<int32_t> encode_turn(const std::string& user) const;

  // Returns the token that ends an assistant message.
  int32_t end_id() const { return end_id_; }
  // Returns true if the template writes a space before responses. The space is not part of the response.
  bool blank_before_answers() const { return blank_before_answers_; }
  // Returns the name of the built-in format or of the template.
  const std::string& name() const { return source_.name; }
  bool built_in() const { return source_.built_in; }
  const std::string& jinja() const { return source_.jinja; }
  // Returns the template that writes conversations with tools.
  const std::string& tool_jinja() const;
  // Returns all templates of the model, so that a fine-tuned model can keep them.
  ChatTemplates templates() const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  // The types of content that a template supports: strings, lists of parts, or both.
  enum class Contents : uint8_t { texts, parts, both };
  // A compiled template.
  struct Runner {
    JinjaTemplate jinja;
    Contents contents;
  };
  Runner runner_of(const std::string& jinja) const;
  Contents contents_of(const JinjaTemplate& jinja) const;
  nlohmann::ordered_json context_of(const nlohmann::ordered_json& conversation, bool generate) const;
  JinjaText render(const nlohmann::ordered_json& conversation, bool generate) const;
  std::vector<int32_t> ids_of(const JinjaText& text) const;
  size_t ids_before(const JinjaText& text, size_t byte, std::span<const int32_t> ids) const;
  bool is_special(int32_t id) const;
  void count_message(const nlohmann::ordered_json& conversation, const JinjaText& text, size_t message,
                     ChatExample& example) const;
  struct AnswerPlace {
    size_t first_id;  // index of the first id of the message
    size_t end;       // end of the last byte of the message
  };
  std::optional<AnswerPlace> answer_place(const nlohmann::ordered_json& conversation, const JinjaText& text,
                                          size_t message, std::span<const int32_t> ids) const;
  size_t answer_end(const JinjaText& text, size_t byte, std::span<const int32_t> ids) const;
  void find_end();

  ChatSource source_;
  bool expects_content_;  // the template fails, or writes "None", for missing content
  const Tokenizer& tokenizer_;
  std::optional<Runner> runner_, tool_runner_;
  int32_t end_id_ = -1;
  bool blank_before_answers_ = false;
};

}  // namespace gpt
