#pragma once

#include <cstdint>
#include <map>
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

// The chat templates of a model in Jinja's language, by name. As in transformers, "default" writes
// conversations, "tool_use" writes conversations with tools if it exists, and others are only used by name.
using ChatTemplates = std::map<std::string, std::string>;
inline constexpr const char* kDefaultTemplate = "default";
inline constexpr const char* kToolTemplate = "tool_use";
// The folder of the templates other than "default" in a model's folder.
inline constexpr const char* kTemplateFolder = "additional_chat_templates";

// A chat template in Jinja's language, as a file has it.
struct ChatSource {
  std::string name;  // of a built-in format, or what stands for the template in messages
  std::string jinja;
  ChatTemplates others = {};  // the model's other templates; "tool_use" writes conversations with tools
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

// The chat templates of a model: its chat_template.jinja and those in additional_chat_templates/, or, if it
// has no such files, "chat_template" of its tokenizer_config.json, a string or several named templates. Empty
// where it has none. Throws Error for damaged files.
ChatTemplates read_chat_templates(const std::string& folder);
// The files of a model's folder that hold these templates, by path relative to the folder. Throws Error for a
// name that cannot be a file name.
std::map<std::string, std::string> chat_template_files(const ChatTemplates& templates);
// Writes these files into an existing folder.
void write_chat_templates(const std::string& folder, const ChatTemplates& templates);

// The names of special tokens in a model's tokenizer_config.json, else its special_tokens_map.json, for
// ChatSource::tokens. Throws Error for damaged files.
std::vector<std::pair<std::string, std::string>> read_special_tokens(const std::string& folder);

}  // namespace gpt
