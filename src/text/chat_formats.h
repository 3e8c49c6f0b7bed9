#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpt {

// The built-in chat formats. A chat format defines how a conversation is written as tokens.
enum class ChatFormat : uint8_t {
  nanochat,      // <|bos|><|user_start|>...<|user_end|><|assistant_start|>...<|assistant_end|>
  chatml,        // <|im_start|>role\n...<|im_end|>\n
  chatml_qwen2,  // chatml, beginning with "You are a helpful assistant." if there is no system message
  llama3,        // <|begin_of_text|><|start_header_id|>role<|end_header_id|>\n\n...<|eot_id|>
  llama2,        // <s>[INST] <<SYS>>\n...\n<</SYS>>\n\n... [/INST] ... </s>
};
std::string_view chat_format_name(ChatFormat format);
std::vector<std::string> chat_format_names();
std::optional<ChatFormat> parse_chat_format(std::string_view name);

// The Jinja chat templates of a model, by name. As in transformers, "default" writes conversations.
// "tool_use", if it exists, writes conversations with tools. Other templates are only used if they are
// requested by name.
using ChatTemplates = std::map<std::string, std::string>;
inline constexpr const char* kDefaultTemplate = "default";
inline constexpr const char* kToolTemplate = "tool_use";
// The subfolder of a model's folder for templates other than "default".
inline constexpr const char* kTemplateFolder = "additional_chat_templates";

// A Jinja chat template with its name and special tokens.
struct ChatSource {
  std::string name;  // name of a built-in format, or name of the template in messages
  std::string jinja;
  ChatTemplates others = {};  // the model's other templates; "tool_use" writes conversations with tools
  bool built_in = false;
  // The texts of special tokens by name, such as "bos_token".
  std::vector<std::pair<std::string, std::string>> tokens = {};
  std::vector<std::string> needed_tokens = {};  // special tokens that the tokenizer must have
};
// Returns the template of a built-in format. Its output equals the output of the published templates.
ChatSource chat_source(ChatFormat format);
// Returns true if a template equals the template of a built-in format, which is possible in the folder of a
// fine-tuned model.
bool is_built_in(std::string_view jinja);

// Reads the chat templates of a model: chat_template.jinja and the files in additional_chat_templates/. If
// these files do not exist, reads "chat_template" in tokenizer_config.json, which may be a string or a list
// of named templates. Returns an empty map if the model has no templates. Throws Error for invalid files.
ChatTemplates read_chat_templates(const std::string& folder);
// Returns the contents of the template files in a model's folder, by path relative to the folder. Throws
// Error if the name of a template is not a valid file name.
std::map<std::string, std::string> chat_template_files(const ChatTemplates& templates);
// Writes the template files to an existing folder.
void write_chat_templates(const std::string& folder, const ChatTemplates& templates);

// Reads the special tokens of a model, by name, for ChatSource::tokens. The tokens are in
// tokenizer_config.json or, if they are missing there, in special_tokens_map.json. Throws Error for invalid
// files.
std::vector<std::pair<std::string, std::string>> read_special_tokens(const std::string& folder);

}  // namespace gpt
