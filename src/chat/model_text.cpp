#include "chat/model_text.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/printable.h"
#include "base/suggest.h"
#include "chat/vocabularies.h"
#include "convert/adapter_files.h"
#include "convert/gguf_vocab.h"
#include "text/folder_tokens.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

// Returns the token that the tokenizer puts before every text, or -1 if there is none.
int32_t token_before_texts(const Tokenizer& tokenizer, int32_t model_bos) {
  const SpecialIds special = tokenizer.special_ids();
  if (!special.add_bos.value_or(false)) return -1;
  return special.bos >= 0 ? static_cast<int32_t>(special.bos) : model_bos;
}

std::unique_ptr<Tokenizer> own_tokenizer(const LoadedModel& loaded) {
  if (const GgufFile* file = loaded.gguf()) {
    const auto vocab = gguf_vocab(*file);
    return vocab ? tokenizer_of(*vocab, file->path()) : nullptr;
  }
  const std::string folder = loaded.folder().empty() ? "." : loaded.folder();
  return has_tokenizer(folder) ? load_model_tokenizer(folder, loaded.model().config.vocab_size) : nullptr;
}

}  // namespace

std::unique_ptr<Tokenizer> named_tokenizer(const std::string& name) {
  if (name == "byte") return make_byte_tokenizer();
  return name.ends_with(".gguf") ? gguf_tokenizer(name) : load_tokenizer(name);
}

std::unique_ptr<Tokenizer> model_tokenizer(const LoadedModel& loaded, const std::string& name) {
  auto tokenizer = name.empty() ? own_tokenizer(loaded) : named_tokenizer(name);
  const int64_t model_vocab = loaded.model().config.vocab_size;
  if (tokenizer != nullptr && tokenizer->vocab_size() > model_vocab) {
    fail(
        "the tokenizer has {} tokens, but the vocabulary of the model has only {}; use the tokenizer of this "
        "model",
        tokenizer->vocab_size(), model_vocab);
  }
  return tokenizer;
}

namespace {

bool is_same_file(const std::string& a, const std::string& b) {
  return path_exists(a) && path_exists(b) && read_file(a) == read_file(b);
}

std::unique_ptr<Tokenizer> readable(const std::function<std::unique_ptr<Tokenizer>()>& read) {
  try {
    return read();
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

void require_same_tokens(const LoadedModel& loaded, const std::string& adapter) {
  const std::string folder = adapter_folder(adapter), file = "/tokenizer.json";
  if (!has_tokenizer(folder)) return;
  if (loaded.gguf() == nullptr && is_same_file(folder + file, loaded.folder() + file)) return;
  const auto theirs = readable([&] { return load_tokenizer(folder); });
  const auto ours = readable([&] { return own_tokenizer(loaded); });
  if (theirs == nullptr || ours == nullptr) return;
  const int32_t id = differing_id(*theirs, *ours);
  if (id < 0) return;
  fail(
      "{}: the adapter was trained with a different tokenizer than that of {}: token {} is {} in {} and {} "
      "in the model; use the base model of the adapter",
      adapter, loaded.paths().front(), id, printable(bytes_of_id(*theirs, id)), folder,
      printable(bytes_of_id(*ours, id)));
}

namespace {

// Returns the last component of a model's path or hub name, without a trailing best/ or last/ folder of a
// run. In the cache of huggingface_hub, a model is stored in models--OWNER--NAME/snapshots/COMMIT.
std::string model_name(const std::string& path) {
  std::filesystem::path p = std::filesystem::path(path).lexically_normal();
  while (p.has_parent_path() && (!p.has_filename() || p.filename() == "best" || p.filename() == "last"))
    p = p.parent_path();
  const std::string cached = p.parent_path().parent_path().filename().string();
  if (p.parent_path().filename() == "snapshots" && cached.starts_with("models--"))
    return cached.substr(cached.rfind("--") + 2);
  return p.filename().string();
}

}  // namespace

std::string note_other_base(const LoadedModel& loaded, const std::string& adapter) {
  if (loaded.gguf() != nullptr || adapter.ends_with(".gguf")) return "";
  const std::string base = adapter_facts(adapter).base;
  if (base.empty()) return "";
  const std::string folder = loaded.folder().empty() ? "." : loaded.folder();
  std::error_code ignored;
  if (path_exists(base) && std::filesystem::equivalent(resolve_model_path(base), folder, ignored)) return "";
  if (model_name(std::filesystem::absolute(folder).string()) == model_name(base)) return "";
  return fmt::format(
      "{} was trained on the model {} but is used with {}; results are correct only if both models have the "
      "same weights\n",
      adapter, printable(base), folder);
}

std::string notes_of_other_bases(const LoadedModel& loaded, const std::vector<std::string>& choices) {
  std::string notes;
  for (const std::string& choice : choices) {
    const std::string note = note_other_base(loaded, parse_adapter(choice).path);
    if (!note.empty()) notes += "note: " + note;
  }
  return notes;
}

void require_same_vocabulary(const Tokenizer* ours, const ModelConfig& config, const std::string& draft,
                             const Tokenizer* theirs, const ModelConfig& draft_config) {
  constexpr const char* kExpected = "expected a draft model with the same vocabulary as the model";
  const bool texts = ours != nullptr && theirs != nullptr;
  const int64_t size = texts ? ours->vocab_size() : config.vocab_size;
  const int64_t their_size = texts ? theirs->vocab_size() : draft_config.vocab_size;
  if (size != their_size)
    fail_parameter("draft", "{} ({} tokens), found {} in {}", kExpected, size, their_size, draft);
  const int32_t id = texts ? differing_id(*theirs, *ours) : -1;
  if (id < 0) return;
  fail_parameter("draft", "{}, found a different one: token {} is {} in {} and {} in the model", kExpected,
                 id, printable(bytes_of_id(*theirs, id)), draft, printable(bytes_of_id(*ours, id)));
}

std::shared_ptr<const Adapter> fitting_adapters(const LoadedModel& loaded,
                                                const std::vector<std::string>& choices) {
  auto adapters = load_adapters(choices, loaded.model());
  for (const std::string& choice : choices)
    require_same_tokens(loaded, parse_adapter(choice).path);
  return adapters;
}

namespace {

ChatTemplates other_templates(ChatTemplates all) {
  all.erase(kDefaultTemplate);
  return all;
}

ChatSource named_chat_source(const std::string& name, const std::string& parameter) {
  if (const auto format = parse_chat_format(name)) return chat_source(*format);
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  if (name.ends_with(".jinja")) {
    ChatSource source = {.name = name, .jinja = read_file(name, kMostBytes)};
    // A template file in a model folder is used together with the model's other templates.
    const std::filesystem::path path(name);
    if (path.filename() == "chat_template.jinja")
      source.others = other_templates(
          read_chat_templates(path.parent_path().empty() ? "." : path.parent_path().string()));
    return source;
  }
  const std::vector<std::string> names = chat_format_names();
  fail_parameter(parameter, "expected {}, or a .jinja file, found \"{}\"{}", format_choices(names),
                 name.substr(0, 64), did_you_mean(name, names));
}

// Calls make(). If the model's own template fails, the error message also lists the built-in formats.
template <class Make>
auto with_advice(const std::string& name, const std::string& parameter, Make make) {
  try {
    return make();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument || !name.empty()) throw;
    fail_because(error, "{}; set the built-in chat format that the model was trained with: `{}` {}",
                 error.what(), parameter, fmt::join(chat_format_names(), "|"));
  }
}

}  // namespace

ChatTemplates model_chat_templates(const LoadedModel& loaded) {
  return loaded.gguf() != nullptr ? gguf_chat_templates(*loaded.gguf())
                                  : read_chat_templates(loaded.folder());
}

bool has_chat_template(const LoadedModel& loaded) {
  return !model_chat_templates(loaded).empty();
}

ChatSource model_chat_source(const LoadedModel& loaded, const std::string& name,
                             const std::string& parameter) {
  const std::string path = loaded.paths().front();
  const bool gguf = loaded.gguf() != nullptr;
  const ChatTemplates own = model_chat_templates(loaded);
  ChatSource source;
  if (const auto named = own.find(name); !name.empty() && named != own.end()) {
    source = {.name = fmt::format("the chat template {} of {}", printable(name), path),
              .jinja = named->second};
  } else if (!name.empty()) {
    source = named_chat_source(name, parameter);
  } else {
    const auto jinja = own.find(kDefaultTemplate);
    if (jinja == own.end() && !own.empty()) {
      std::vector<std::string> names;
      for (const auto& [known, text] : own)
        names.push_back(known);
      fail("{} has several chat templates, but none is named \"{}\"; choose one: `{}` {}", path,
           kDefaultTemplate, parameter, printable(fmt::format("{}", fmt::join(names, "|"))));
    }
    if (jinja == own.end()) {
      const char* usual = export_family(loaded.model().config).chat_template;
      fail(
          "{} has no chat template; set the chat format that it was trained with: `{}` {}{} (a model that "
          "was never trained to chat can only continue texts)",
          path, parameter, fmt::join(chat_format_names(), "|"),
          usual == nullptr ? "" : fmt::format("; chat models of this family use {}", usual));
    }
    source = {.name = "the chat template of " + path, .jinja = jinja->second, .others = other_templates(own)};
  }
  if (source.built_in) return source;
  if (!gguf) source.tokens = read_special_tokens(loaded.folder());
  with_advice(name, parameter, [&] { return JinjaTemplate(source.jinja, {}, source.name); });
  if (const auto tools = source.others.find(kToolTemplate); tools != source.others.end())
    with_advice(name, parameter, [&] { return JinjaTemplate(tools->second, {}, source.name); });
  return source;
}

ChatTemplate model_chat_template(const LoadedModel& loaded, const Tokenizer& tokenizer,
                                 const std::string& name, const std::string& parameter) {
  const ChatSource source = model_chat_source(loaded, name, parameter);
  return with_advice(name, parameter, [&] { return ChatTemplate(source, tokenizer); });
}

std::vector<int32_t> eos_ids(const ModelConfig& config) {
  std::vector<int32_t> ids;
  for (const int64_t id : config.eos_token_ids) {
    if (id >= 0 && id < config.vocab_size) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::vector<int32_t> prompt_ids(const std::string& text, const Tokenizer* tokenizer,
                                const ModelConfig& config, bool no_bos, bool special) {
  const auto bos = static_cast<int32_t>(config.bos_token_id);
  if (text.empty() && bos >= 0) return {bos};
  if (tokenizer == nullptr) {
    fail(
        "this model has no tokenizer.json, so it cannot read {}; pass token ids (`ids` 1,2,3) or a tokenizer "
        "(`tokenizer`)",
        text.empty() ? "an empty prompt" : "text");
  }
  if (!text.empty()) {
    std::vector<int32_t> ids = special ? tokenizer->encode_special(text) : tokenizer->encode(text);
    const int32_t before = no_bos ? -1 : token_before_texts(*tokenizer, bos);
    if (before >= 0) ids.insert(ids.begin(), before);
    return ids;
  }
  try {
    return tokenizer->encode("\n");
  } catch (const Error&) {  // the vocabulary has no newline
    return {0};
  }
}

namespace {

// Returns the names of the special tokens among the ids, each name once, in order.
std::vector<std::string> special_names(std::span<const int32_t> ids, const Tokenizer& tokenizer) {
  std::vector<std::string> names;
  for (const int32_t id : ids) {
    if (tokenizer.is_text(id) || id == tokenizer.special_ids().unk) continue;
    std::string name = printable_text(tokenizer.token_bytes(id), 40);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

std::vector<std::string> prompt_warnings(std::string_view text, std::span<const int32_t> ids,
                                         const Tokenizer* tokenizer, bool special, std::string_view option) {
  constexpr size_t kMostNames = 4;
  if (tokenizer == nullptr || text.empty()) return {};
  if (special) {
    if (ids.size() < 2 || ids[0] != ids[1] || tokenizer->is_text(ids[0])) return {};
    return {fmt::format("the prompt begins with two {} tokens, but the model expects one",
                        printable_text(bytes_of(*tokenizer, ids[0]), 40))};
  }
  std::vector<std::string> names = special_names(tokenizer->encode_special(text), *tokenizer);
  if (names.empty()) return {};
  const size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  return {
      fmt::format("the prompt contains names of special tokens, which are encoded as text: {}{}; use {} to "
                  "encode them as special tokens",
                  fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "", option)};
}

std::string bytes_of(const Tokenizer& tokenizer, int32_t id) {
  return id < tokenizer.vocab_size() ? tokenizer.token_bytes(id) : "\xef\xbf\xbd";
}

std::string TextStream::push(int32_t id) {
  const std::string read = stream_.push(bytes_of(*tokenizer_, id));
  read_chars_ += count_chars(read);
  return shown(stops_.push(read));
}

std::string TextStream::finish() {
  const std::string read = stream_.flush();
  read_chars_ += count_chars(read);
  const std::string rest = stops_.push(read);
  return shown(rest + stops_.finish());
}

std::string TextStream::shown(std::string text) {
  shown_chars_ += count_chars(text);
  if (drop_blank_ && text.starts_with(' ')) text.erase(0, 1);
  if (!text.empty()) drop_blank_ = false;
  return text;
}

}  // namespace gpt
