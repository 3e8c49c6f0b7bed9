#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "text/tokenizer_kinds.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = uint64_t{16} << 20;
constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

struct Format {
  ChatFormat format;
  const char* name;
  const char* end;  // what ends the assistant's message
  std::vector<const char*> markers;
};
const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {ChatFormat::nanochat,
       "nanochat",
       "<|assistant_end|>",
       {"<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"}},
      {ChatFormat::chatml, "chatml", "<|im_end|>", {"<|im_start|>", "<|im_end|>"}},
      {ChatFormat::chatml_qwen2, "chatml-qwen2", "<|im_end|>", {"<|im_start|>", "<|im_end|>"}},
      {ChatFormat::llama3,
       "llama3",
       "<|eot_id|>",
       {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
      {ChatFormat::llama2, "llama2", "</s>", {"<s>", "</s>"}}};
  return all;
}

struct Published {
  ChatFormat format;
  const char* jinja;
};
// The templates as their formats' own documentation or models have them, and their usual variants.
const Published kPublished[] =
    {
        {ChatFormat::chatml,
         R"({% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
        {ChatFormat::chatml,
         R"({% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
        {ChatFormat::chatml,
         R"({% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
        {ChatFormat::chatml_qwen2,
         R"({% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})"},
        {ChatFormat::llama3,
         R"({% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %})"},
        {ChatFormat::llama2, R"({% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %})"},
        {ChatFormat::nanochat,
         R"({% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] + '\n\n' %}{% else %}{% set loop_messages = messages %}{% set system_message = '' %}{% endif %}{{ '<|bos|>' }}{% for message in loop_messages %}{% if message['role'] == 'user' %}{{ '<|user_start|>' + (system_message if loop.first else '') + message['content'] + '<|user_end|>' }}{% elif message['role'] == 'assistant' %}{{ '<|assistant_start|>' + message['content'] + '<|assistant_end|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant_start|>' }}{% endif %})"},
};

// What Python's str.strip takes away.
bool is_python_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

std::string_view stripped(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char c = decode_utf8(text, 0);
    if (!is_python_space(c.code)) break;
    text.remove_prefix(static_cast<size_t>(c.length));
  }
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = decode_utf8(text, at);
    at += static_cast<size_t>(c.length);
    if (!is_python_space(c.code)) end = at;
  }
  return text.substr(0, end);
}

// The ids of a conversation as it grows. Text between two markers is encoded as one piece.
class Writer {
 public:
  explicit Writer(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void text(std::string_view more) { pending_ += more; }
  void marker(const char* name) {
    flush();
    const std::vector<int32_t> ids = tokenizer_.encode_special(name);
    GPT_ASSERT(ids.size() == 1);  // the constructor of ChatTemplate has looked
    ids_.push_back(ids[0]);
  }
  std::vector<int32_t> finish() {
    flush();
    return std::move(ids_);
  }

 private:
  void flush() {
    if (pending_.empty()) return;
    const std::vector<int32_t> ids = tokenizer_.encode(pending_);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    pending_.clear();
  }
  const Tokenizer& tokenizer_;
  std::string pending_;
  std::vector<int32_t> ids_;
};

// User and assistant in turns, a system message before them; the messages without the latter.
std::span<const ChatMessage> turns(std::span<const ChatMessage> messages) {
  const std::span<const ChatMessage> rest =
      !messages.empty() && messages[0].role == "system" ? messages.subspan(1) : messages;
  for (size_t i = 0; i < rest.size(); ++i) {
    const char* expected = i % 2 == 0 ? "user" : "assistant";
    if (rest[i].role != expected) {
      fail(
          "message {}: expected the role {}, for user and assistant take turns in this model's chat format, "
          "found \"{}\"",
          i + 1 + messages.size() - rest.size(), expected, printable_text(rest[i].role, 32));
    }
  }
  return rest;
}

void write_nanochat(Writer& out, std::span<const ChatMessage> messages, bool generate) {
  const std::span<const ChatMessage> rest = turns(messages);
  out.marker("<|bos|>");
  for (size_t i = 0; i < rest.size(); ++i) {
    const bool user = i % 2 == 0;
    out.marker(user ? "<|user_start|>" : "<|assistant_start|>");
    if (i == 0 && rest.size() < messages.size()) out.text(messages[0].content + "\n\n");
    out.text(rest[i].content);
    out.marker(user ? "<|user_end|>" : "<|assistant_end|>");
  }
  if (generate) out.marker("<|assistant_start|>");
}

void write_chatml(Writer& out, std::span<const ChatMessage> messages, bool generate, bool default_system) {
  const auto write = [&](std::string_view role, std::string_view content) {
    out.marker("<|im_start|>");
    out.text(role);
    out.text("\n");
    out.text(content);
    out.marker("<|im_end|>");
    out.text("\n");
  };
  if (default_system && !messages.empty() && messages[0].role != "system")
    write("system", "You are a helpful assistant.");
  for (const ChatMessage& message : messages)
    write(message.role, message.content);
  if (!generate) return;
  out.marker("<|im_start|>");
  out.text("assistant\n");
}

void write_llama3(Writer& out, std::span<const ChatMessage> messages, bool generate) {
  const auto begin = [&](std::string_view role) {
    out.marker("<|start_header_id|>");
    out.text(role);
    out.marker("<|end_header_id|>");
    out.text("\n\n");
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    if (i == 0) out.marker("<|begin_of_text|>");
    begin(messages[i].role);
    out.text(stripped(messages[i].content));
    out.marker("<|eot_id|>");
  }
  if (generate) begin("assistant");
}

void write_llama2(Writer& out, std::span<const ChatMessage> messages) {
  const std::span<const ChatMessage> rest = turns(messages);
  for (size_t i = 0; i < rest.size(); ++i) {
    std::string content = rest[i].content;
    if (i == 0 && rest.size() < messages.size())
      content = fmt::format("<<SYS>>\n{}\n<</SYS>>\n\n{}", messages[0].content, content);
    if (i % 2 == 0) {
      out.marker("<s>");
      out.text("[INST] " + std::string(stripped(content)) + " [/INST]");
    } else {
      out.text(" " + std::string(stripped(content)) + " ");
      out.marker("</s>");
    }
  }
}

void check_roles(std::span<const ChatMessage> messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role != "system" && role != "user" && role != "assistant") {
      fail("message {}: expected the role system, user or assistant, found \"{}\"", i + 1,
           printable_text(role, 32));
    }
  }
}

// The template of a tokenizer_config.json: a string, or the one named "default" of several. Empty when it has
// none.
std::string template_of_config(const std::string& path) {
  const nlohmann::json config = detail::parse_limited_json(read_file(path, kMaxFileBytes), path);
  const nlohmann::json found =
      config.is_object() ? config.value("chat_template", nlohmann::json()) : nlohmann::json();
  if (found.is_string()) return found;
  if (found.is_null()) return "";
  if (!found.is_array()) fail("{}: expected \"chat_template\" to be a string or a list", path);
  for (const nlohmann::json& entry : found) {
    if (entry.is_object() && entry.value("name", nlohmann::json()) == "default" &&
        entry.value("template", nlohmann::json()).is_string()) {
      return entry["template"];
    }
  }
  fail("{}: expected a template named \"default\" in \"chat_template\", found none", path);
}

// One id where the tokenizer has the marker; a tokenizer of characters may not even have its letters.
std::vector<int32_t> marker_ids(const Tokenizer& tokenizer, const char* name) {
  try {
    return tokenizer.encode_special(name);
  } catch (const Error&) {
    return {};
  }
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// "\n" and the like of a string literal become the characters themselves, as they are in templates.
char unescaped(char c) {
  return c == 'n' ? '\n' : (c == 't' ? '\t' : c);
}

// The inside of a tag: words that blanks part keep one blank, .name becomes ['name'].
std::string tag_shape(std::string_view code) {
  std::string out;
  for (size_t i = 0; i < code.size();) {
    const char c = code[i];
    if (c == '\'' || c == '"') {
      out += '\'';
      for (++i; i < code.size() && code[i] != c; ++i) {
        const bool escape = code[i] == '\\' && i + 1 < code.size();
        const char plain = escape ? unescaped(code[++i]) : code[i];
        if (plain == '\'') out += '\\';
        out += plain;
      }
      ++i;
      out += '\'';
    } else if (is_blank(c)) {
      while (i < code.size() && is_blank(code[i]))
        ++i;
      if (i < code.size() && !out.empty() && is_word(out.back()) && is_word(code[i])) out += ' ';
    } else if (c == '.' && !out.empty() && (is_word(out.back()) || out.back() == ']') &&
               i + 1 < code.size() && std::isalpha(static_cast<unsigned char>(code[i + 1])) != 0) {
      size_t end = i + 1;
      while (end < code.size() && is_word(code[end]))
        ++end;
      const std::string name(code.substr(i + 1, end - i - 1));
      out += end < code.size() && code[end] == '(' ? "." + name : "['" + name + "']";
      i = end;
    } else {
      out += c;
      ++i;
    }
  }
  return out;
}

void strip_end(std::string& text, size_t keep) {
  while (text.size() > keep && is_blank(text.back()))
    text.pop_back();
}

// Blanks between the beginning of a line and a block tag at `at` are not written.
void strip_line_begin(std::string& text, size_t keep, std::string_view source, size_t at) {
  size_t begin = at;
  while (begin > 0 && (source[begin - 1] == ' ' || source[begin - 1] == '\t'))
    --begin;
  if (begin > 0 && source[begin - 1] != '\n') return;
  while (text.size() > keep && (text.back() == ' ' || text.back() == '\t'))
    text.pop_back();
}

}  // namespace

std::string_view chat_format_name(ChatFormat format) {
  return formats()[static_cast<size_t>(format)].name;
}

std::vector<std::string> chat_format_names() {
  return transformed(formats(), [](const Format& f) { return std::string(f.name); });
}

std::optional<ChatFormat> parse_chat_format(std::string_view name) {
  const auto* f = find_by(formats(), &Format::name, name);
  return f == nullptr ? std::nullopt : std::optional(f->format);
}

std::optional<ChatFormat> recognise_chat_template(std::string_view jinja) {
  if (jinja.size() > kMaxTemplateBytes) return std::nullopt;
  const std::string shape = detail::jinja_shape(jinja);
  for (const Published& p : kPublished) {
    if (detail::jinja_shape(p.jinja) == shape) return p.format;
  }
  return std::nullopt;
}

std::optional<std::string> read_chat_template(const std::string& folder) {
  const std::string file = folder + "/chat_template.jinja", config = folder + "/tokenizer_config.json";
  std::error_code ignored;
  std::string jinja;
  if (fs::exists(file, ignored)) {
    jinja = read_file(file, kMaxTemplateBytes);
  } else if (fs::exists(config, ignored)) {
    jinja = template_of_config(config);
  }
  return jinja.empty() ? std::nullopt : std::optional(jinja);
}

ChatTemplate::ChatTemplate(ChatFormat format, const Tokenizer& tokenizer)
    : format_(format), tokenizer_(tokenizer) {
  const Format& f = formats()[static_cast<size_t>(format)];
  for (const char* name : f.markers) {
    const std::vector<int32_t> ids = marker_ids(tokenizer, name);
    if (ids.size() != 1) {
      fail("the chat format {} needs the special token {}, which this tokenizer (of kind {}) lacks", f.name,
           name, tokenizer.kind());
    }
    if (std::string_view(name) == f.end) end_id_ = ids[0];
  }
}

std::vector<int32_t> ChatTemplate::encode(std::span<const ChatMessage> messages, bool generate) const {
  check_roles(messages);
  Writer out(tokenizer_);
  switch (format_) {
    case ChatFormat::nanochat:
      write_nanochat(out, messages, generate);
      break;
    case ChatFormat::chatml:
    case ChatFormat::chatml_qwen2:
      write_chatml(out, messages, generate, format_ == ChatFormat::chatml_qwen2);
      break;
    case ChatFormat::llama3:
      write_llama3(out, messages, generate);
      break;
    case ChatFormat::llama2:
      write_llama2(out, messages);
      break;
  }
  return out.finish();
}

// Text is encoded between markers, so what is behind one does not depend on what was before it.
std::vector<int32_t> ChatTemplate::encode_turn(const std::string& user) const {
  const ChatMessage messages[] = {{"user", ""}, {"assistant", ""}, {"user", user}};
  const std::vector<int32_t> before = encode(std::span(messages).first(2), false);
  const std::vector<int32_t> all = encode(messages, true);
  const auto end = std::find(before.rbegin(), before.rend(), end_id_);
  return {all.begin() + (before.rend() - end), all.end()};
}

std::string detail::jinja_shape(std::string_view source) {
  std::string out;
  size_t text_begin = 0;  // in out: where the text since the last tag begins
  size_t i = 0;
  while (i < source.size()) {
    const bool opens = source[i] == '{' && i + 1 < source.size() &&
                       (source[i + 1] == '{' || source[i + 1] == '%' || source[i + 1] == '#');
    if (!opens) {
      out += source[i++];
      continue;
    }
    const char kind = source[i + 1];
    const std::string close = kind == '{' ? "}}" : std::string(1, kind) + "}";
    const size_t end = source.find(close, i + 2);
    if (end == std::string_view::npos) return std::string(source);
    std::string_view code = source.substr(i + 2, end - i - 2);
    const bool strips_before = code.starts_with('-'), strips_after = code.ends_with('-') && code.size() > 1;
    if (strips_before) code.remove_prefix(1);
    if (strips_after) code.remove_suffix(1);
    if (strips_before) {
      strip_end(out, text_begin);
    } else if (kind != '{') {
      strip_line_begin(out, text_begin, source, i);
    }
    if (kind != '#') out += (kind == '{' ? "\1(" : "\1[") + tag_shape(code) + "\2";
    i = end + 2;
    if (strips_after) {
      while (i < source.size() && is_blank(source[i]))
        ++i;
    } else if (kind != '{' && i < source.size() && source[i] == '\n') {
      ++i;
    }
    text_begin = out.size();
  }
  return out;
}

}  // namespace gpt
