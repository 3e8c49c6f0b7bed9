#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace gpt {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// The ways of writing a conversation as tokens that are built in.
enum class ChatFormat : uint8_t {
  nanochat,      // <|bos|><|user_start|>...<|user_end|><|assistant_start|>...<|assistant_end|>
  chatml,        // <|im_start|>role\n...<|im_end|>\n
  chatml_qwen2,  // the same, beginning with "You are a helpful assistant." where there is no system message
  llama3,        // <|begin_of_text|><|start_header_id|>role<|end_header_id|>\n\n...<|eot_id|>
  llama2,        // <s>[INST] <<SYS>>\n...\n<</SYS>>\n\n... [/INST] ... </s>
};
std::string_view chat_format_name(ChatFormat format);
std::vector<std::string> chat_format_names();
std::optional<ChatFormat> parse_chat_format(std::string_view name);

// The format that a Jinja template writes, if it is one of the published templates of these formats, written
// in any style of blanks and quotes. Templates are compared, never run.
std::optional<ChatFormat> recognise_chat_template(std::string_view jinja);

// The template of a model in Jinja's language: its chat_template.jinja, or "chat_template" of its
// tokenizer_config.json; nothing where it has neither. Throws Error for damaged files.
std::optional<std::string> read_chat_template(const std::string& folder);

// Conversations as token ids. Markers of a format are single special tokens; everything else, contents and
// roles, is text and never becomes a special token, whatever it says.
class ChatTemplate {
 public:
  // The tokenizer must outlive the object. Throws Error when it lacks one of the format's tokens.
  ChatTemplate(ChatFormat format, const Tokenizer& tokenizer);

  // The ids of a conversation; with `generate`, up to where the assistant's next message begins. The same as
  // transformers' apply_chat_template gives for contents that name no special token. Throws Error for roles
  // that the format does not have or not in that order, and where the tokenizer does.
  std::vector<int32_t> encode(std::span<const ChatMessage> messages, bool generate) const;

  // What comes behind the token that ends an assistant's message: the user's next one, up to where the
  // assistant's next message begins. Throws Error where the tokenizer does.
  std::vector<int32_t> encode_turn(const std::string& user) const;

  // The token that ends the assistant's message.
  int32_t end_id() const { return end_id_; }

 private:
  ChatFormat format_;
  const Tokenizer& tokenizer_;
  int32_t end_id_ = -1;
};

namespace detail {
// A Jinja template in a form that styles of writing do not change: outside of tags the text that is written,
// after the rules of blanks that transformers uses (trim_blocks, lstrip_blocks, "-"); inside of tags no
// blanks, one kind of quotes, subscripts instead of attributes. Two templates of one shape write the same;
// nothing is run. Source: Jinja's template documentation, "Whitespace Control".
std::string jinja_shape(std::string_view source);
}  // namespace detail

}  // namespace gpt
