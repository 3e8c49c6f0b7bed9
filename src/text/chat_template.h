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

// The texts of a list of parts of the type "text", one per line. Throws Error, naming the place, for other
// parts.
std::string joined_parts(const nlohmann::ordered_json& parts, const std::string& place);

struct ChatMessage {
  std::string role;  // "system", "developer", "user", "assistant" or "tool"
  std::string content;
};

// A conversation to be trained on: its ids, and which of them count.
struct ChatExample {
  std::vector<int32_t> ids;
  std::vector<uint8_t> weights;  // 1 for what the assistant says, and for the token that ends it
};

// Conversations as token ids, by a template that is run. What the template itself writes may be special
// tokens; everything else, contents, roles and tools, is text and never becomes one, whatever it says. All
// ids of a conversation come from here: those to train on, those of a chat, those that are served.
class ChatTemplate {
 public:
  // The tokenizer must outlive the object. Throws Error for a template that cannot be run, when the tokenizer
  // lacks one of its special tokens, or when it writes none behind an assistant's message.
  ChatTemplate(const ChatSource& source, const Tokenizer& tokenizer);
  ChatTemplate(ChatFormat format, const Tokenizer& tokenizer)
      : ChatTemplate(chat_source(format), tokenizer) {}

  // The ids of a conversation; with `generate`, up to where the assistant's next message begins. The same as
  // transformers' apply_chat_template gives for contents that name no special token. Throws Error for roles
  // that the format does not have or not in that order, and where the tokenizer does.
  std::vector<int32_t> encode(std::span<const ChatMessage> messages, bool generate) const;

  // The same for an object with "messages", as OpenAI's programming interface has them, with "tool_calls",
  // "name", "tool_call_id" and "reasoning_content", and with "tools" and other names that the template knows.
  // A content may be a list of parts of the type "text". Conversations with "tools" are written by the
  // template for tools if the model has one.
  std::vector<int32_t> encode_conversation(const nlohmann::ordered_json& conversation, bool generate) const;

  // The ids of a conversation up to the end of what its last message says, which is to be continued: the rest
  // that the template writes is cut off, and white space there that the template trims, as
  // continue_final_message of transformers does. Throws Error as `encode`, and where the last message has no
  // text or the template does not write it.
  std::vector<int32_t> encode_to_continue(const nlohmann::ordered_json& conversation) const;

  // A conversation with the assistant's messages in it. The counted tokens of a message start where the
  // prompt for it ends and include its end token; in a template with generation blocks they are those of the
  // blocks. Messages of "weight" 0 do not count. Throws Error as `encode`.
  ChatExample example(const nlohmann::ordered_json& conversation) const;
  // A response and its prompt: the same where only the last message counts, which is the assistant's.
  // Generation blocks have no effect: its tokens are compared with those sampled after the prompt.
  ChatExample response(const nlohmann::ordered_json& conversation) const;

  // What comes behind the token that ends an assistant's message: the user's next one, up to where the
  // assistant's next message begins. `before`: the conversation, whose last message is the assistant's.
  // Nothing where the template then writes something else for what was before. Throws Error as `encode`.
  std::optional<std::vector<int32_t>> encode_turn(std::span<const ChatMessage> before,
                                                  const std::string& user) const;
  std::vector<int32_t> encode_turn(const std::string& user) const;  // for a short conversation

  // The token that ends the assistant's message.
  int32_t end_id() const { return end_id_; }
  // Whether the template writes a blank in front of answers, which is no part of them.
  bool blank_before_answers() const { return blank_before_answers_; }
  // Of a built-in format, or of the template.
  const std::string& name() const { return source_.name; }
  bool built_in() const { return source_.built_in; }
  const std::string& jinja() const { return source_.jinja; }
  // The template that writes conversations with tools.
  const std::string& tool_jinja() const;
  // All templates of the model, which a fine-tuned one keeps.
  ChatTemplates templates() const;
  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  // How a template reads contents: as texts, as lists of parts, or both.
  enum class Contents : uint8_t { texts, parts, both };
  // A template that is run.
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
    size_t first_id;  // the index of its first id
    size_t end;       // the end of its last byte
  };
  std::optional<AnswerPlace> answer_place(const nlohmann::ordered_json& conversation, const JinjaText& text,
                                          size_t message, std::span<const int32_t> ids) const;
  size_t answer_end(const JinjaText& text, size_t byte, std::span<const int32_t> ids) const;
  void find_end();

  ChatSource source_;
  bool expects_content_;  // known to write no content as an error or as "None"
  const Tokenizer& tokenizer_;
  std::optional<Runner> runner_, tool_runner_;
  int32_t end_id_ = -1;
  bool blank_before_answers_ = false;
};

}  // namespace gpt
