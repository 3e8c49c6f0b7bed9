#include "text/chat_formats.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = uint64_t{16} << 20;
constexpr size_t kMaxTemplateBytes = size_t{1} << 20;
constexpr const char* kDefaultFile = "chat_template.jinja";

struct Format {
  ChatFormat format;
  const char* name;
  std::vector<std::string> markers;
  const char* jinja;
};
const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {ChatFormat::nanochat,
       "nanochat",
       {"<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"},
       R"({%- if messages and messages[0]['role'] == 'system' -%}
    {%- set offset = 1 -%}
    {%- set system_message = messages[0]['content'] + '\n\n' -%}
{%- else -%}
    {%- set offset = 0 -%}
    {%- set system_message = '' -%}
{%- endif -%}
{{- '<|bos|>' -}}
{%- for message in messages[offset:] -%}
    {%- set expected = 'user' if loop.index0 % 2 == 0 else 'assistant' -%}
    {%- if message['role'] != expected -%}
        {{- raise_exception('message ' ~ (loop.index + offset) ~ ': expected the role ' ~ expected ~ ', for user and assistant take turns in this chat format, found "' ~ message['role'] ~ '"') -}}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
        {{- '<|user_start|>' + (system_message if loop.first else '') + message['content'] + '<|user_end|>' -}}
    {%- else -%}
        {{- '<|assistant_start|>' + message['content'] + '<|assistant_end|>' -}}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant_start|>' -}}{%- endif -%})"},
      {ChatFormat::chatml,
       "chatml",
       {"<|im_start|>", "<|im_end|>"},
       R"({% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
      {ChatFormat::chatml_qwen2,
       "chatml-qwen2",
       {"<|im_start|>", "<|im_end|>"},
       R"({% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
      {ChatFormat::llama3,
       "llama3",
       {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
       R"({% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = '<|begin_of_text|>' + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
      {ChatFormat::llama2,
       "llama2",
       {"<s>", "</s>"},
       R"({%- if messages and messages[0]['role'] == 'system' -%}
    {%- set offset = 1 -%}
    {%- set system_message = '<<SYS>>\n' + messages[0]['content'] + '\n<</SYS>>\n\n' -%}
{%- else -%}
    {%- set offset = 0 -%}
    {%- set system_message = '' -%}
{%- endif -%}
{%- for message in messages[offset:] -%}
    {%- set expected = 'user' if loop.index0 % 2 == 0 else 'assistant' -%}
    {%- if message['role'] != expected -%}
        {{- raise_exception('message ' ~ (loop.index + offset) ~ ': expected the role ' ~ expected ~ ', for user and assistant take turns in this chat format, found "' ~ message['role'] ~ '"') -}}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
        {{- '<s>[INST] ' + ((system_message if loop.first else '') + message['content']).strip() + ' [/INST]' -}}
    {%- else -%}
        {{- ' ' + message['content'].strip() + ' </s>' -}}
    {%- endif -%}
{%- endfor -%})"}};
  return all;
}
const Format& format_of(ChatFormat format) {
  return formats()[static_cast<size_t>(format)];
}

// Reads the templates of a tokenizer_config.json. If "chat_template" is a string, the string is the default
// template.
ChatTemplates templates_of_config(const std::string& path) {
  const nlohmann::json config = detail::parse_limited_json(read_file(path, kMaxFileBytes), path);
  const nlohmann::json found =
      config.is_object() ? config.value("chat_template", nlohmann::json()) : nlohmann::json();
  if (found.is_null()) return {};
  if (found.is_string()) return {{kDefaultTemplate, found}};
  if (!found.is_array() && !found.is_object())
    fail("{}: expected \"chat_template\" to be a string or a list of named templates, found {}", path,
         json_kind(found));
  ChatTemplates templates;
  const auto add = [&](const nlohmann::json& name, const nlohmann::json& jinja) {
    if (!name.is_string() || !jinja.is_string())
      fail("{}: expected a \"name\" and a \"template\" for each template in \"chat_template\"", path);
    templates[name.get<std::string>()] = jinja.get<std::string>();
  };
  for (const auto& [key, entry] : found.items()) {
    if (found.is_object()) {
      add(key, entry);
    } else {
      const bool object = entry.is_object();
      add(object ? entry.value("name", nlohmann::json()) : nlohmann::json(),
          object ? entry.value("template", nlohmann::json()) : nlohmann::json());
    }
  }
  return templates;
}

// Reads a special token of a Hugging Face file, which is a string or an object with a "content".
std::optional<std::string> token_of(const nlohmann::json& value) {
  if (value.is_string()) return value;
  const nlohmann::json content =
      value.is_object() ? value.value("content", nlohmann::json()) : nlohmann::json();
  return content.is_string() ? std::optional<std::string>(content) : std::nullopt;
}

}  // namespace

std::string_view chat_format_name(ChatFormat format) {
  return format_of(format).name;
}

std::vector<std::string> chat_format_names() {
  return transformed(formats(), [](const Format& f) { return std::string(f.name); });
}

std::optional<ChatFormat> parse_chat_format(std::string_view name) {
  const auto* f = find_by(formats(), &Format::name, name);
  return f == nullptr ? std::nullopt : std::optional(f->format);
}

ChatSource chat_source(ChatFormat format) {
  const Format& f = format_of(format);
  return {.name = f.name, .jinja = f.jinja, .built_in = true, .needed_tokens = f.markers};
}

bool is_built_in(std::string_view jinja) {
  return find_by(formats(), &Format::jinja, jinja) != nullptr;
}

ChatTemplates read_chat_templates(const std::string& folder) {
  const std::string config = folder + "/tokenizer_config.json";
  std::error_code error;
  ChatTemplates templates;
  if (const std::string file = folder + "/" + kDefaultFile; fs::exists(file, error))
    templates[kDefaultTemplate] = read_file(file, kMaxTemplateBytes);
  for (fs::directory_iterator it(fs::path(folder) / kTemplateFolder, error);
       !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->path().extension() == ".jinja")
      templates[it->path().stem().string()] = read_file(it->path().string(), kMaxTemplateBytes);
  }
  if (templates.empty() && fs::exists(config, error)) templates = templates_of_config(config);
  std::erase_if(templates, [](const auto& entry) { return entry.second.empty(); });
  return templates;
}

std::map<std::string, std::string> chat_template_files(const ChatTemplates& templates) {
  std::map<std::string, std::string> files;
  for (const auto& [name, jinja] : templates) {
    if (name == kDefaultTemplate) {
      files[kDefaultFile] = jinja;
      continue;
    }
    const fs::path path(name);
    if (name.empty() || name.find('\0') != std::string::npos || path.filename() != path || name == "." ||
        name == "..")
      fail("the chat template \"{}\": expected a name that is a valid file name", printable_text(name, 64));
    files[fmt::format("{}/{}.jinja", kTemplateFolder, name)] = jinja;
  }
  return files;
}

void write_chat_templates(const std::string& folder, const ChatTemplates& templates) {
  for (const auto& [name, jinja] : chat_template_files(templates)) {
    const fs::path file = fs::path(folder) / name;
    make_directories(file.parent_path().string());
    write_file_atomic(file.string(), jinja);
  }
}

std::vector<std::pair<std::string, std::string>> read_special_tokens(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> tokens;
  for (const char* file : {"/tokenizer_config.json", "/special_tokens_map.json"}) {
    const std::string path = folder + file;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    const nlohmann::json config = detail::parse_limited_json(read_file(path, kMaxFileBytes), path);
    if (!config.is_object()) fail("{}: expected an object, found {}", path, json_kind(config));
    for (const auto& [name, value] : config.items()) {
      const auto token = name.ends_with("_token") ? token_of(value) : std::nullopt;
      const auto same = [&name = name](const auto& known) { return known.first == name; };
      if (token && std::ranges::none_of(tokens, same)) tokens.emplace_back(name, *token);
    }
  }
  return tokens;
}

}  // namespace gpt
