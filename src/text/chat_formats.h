#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt {

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

// A chat template in Jinja's language, as a file has it.
struct ChatSource {
  std::string name;  // of a built-in format, or what stands for the template in messages
  std::string jinja;
  bool built_in = false;
  std::vector<std::pair<std::string, std::string>> tokens =
      {};  // "bos_token" and the like, and what they are
  std::vector<std::string> needed_tokens =
      {};  // special tokens without which the tokenizer is another model's
};
// The template of a built-in format. It writes what the published ones of its models do.
ChatSource chat_source(ChatFormat format);
// Whether a template is the one of a built-in format, as the files of a fine-tuned model may have it.
bool is_built_in(std::string_view jinja);

// The template of a model in Jinja's language: its chat_template.jinja, or "chat_template" of its
// tokenizer_config.json; nothing where it has neither. Throws Error for damaged files.
std::optional<std::string> read_chat_template(const std::string& folder);

// The names of special tokens in a model's tokenizer_config.json, else its special_tokens_map.json, for
// ChatSource::tokens. Throws Error for damaged files.
std::vector<std::pair<std::string, std::string>> read_special_tokens(const std::string& folder);

}  // namespace gpt
