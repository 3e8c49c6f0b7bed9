#include "chat/model_text.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "convert/gguf_vocab.h"

namespace gpt {
namespace {

// The token that the tokenizer puts in front of every text, -1: none. SentencePiece does so unless its file
// says otherwise, in transformers and llama.cpp.
int32_t token_before_texts(const Tokenizer& tokenizer, int32_t model_bos) {
  const SpecialIds special = tokenizer.special_ids();
  if (!special.add_bos.value_or(tokenizer.kind() == "sentencepiece")) return -1;
  return special.bos >= 0 ? static_cast<int32_t>(special.bos) : model_bos;
}

std::unique_ptr<Tokenizer> own_tokenizer(const LoadedModel& loaded) {
  if (const GgufFile* file = loaded.gguf()) {
    const auto vocab = gguf_vocab(*file);
    return vocab ? tokenizer_of(*vocab, file->path()) : nullptr;
  }
  const std::string folder = loaded.folder().empty() ? "." : loaded.folder();
  return has_tokenizer(folder) ? load_tokenizer(folder) : nullptr;
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
    fail("the tokenizer has {} tokens, but the model's vocabulary has only {}; they do not belong together",
         tokenizer->vocab_size(), model_vocab);
  }
  return tokenizer;
}

ChatFormat model_chat_format(const LoadedModel& loaded, const std::string& name,
                             const std::string& parameter) {
  const std::vector<std::string> names = chat_format_names();
  const std::string path = loaded.paths().front();
  if (!name.empty()) {
    if (const auto format = parse_chat_format(name)) return *format;
    fail_usage("{}: expected {}, found \"{}\"{}", parameter, fmt::join(names, " or "), name.substr(0, 64),
               did_you_mean(name, names));
  }
  const auto jinja =
      loaded.gguf() != nullptr ? gguf_chat_template(*loaded.gguf()) : read_chat_template(loaded.folder());
  if (!jinja) {
    const char* usual = export_family(loaded.model().config).chat_template;
    fail(
        "{} has no chat template; name the format it was trained with: {} {}{} (a model that was never "
        "trained to chat "
        "only goes on with texts)",
        path, parameter, fmt::join(names, "|"),
        usual == nullptr ? "" : fmt::format("; chat models of its family have {}", usual));
  }
  if (const auto format = recognise_chat_template(*jinja)) return *format;
  fail(
      "the chat template of {} is none of the built-in ones, and templates are never run; name the format it "
      "was "
      "trained with: {} {}",
      path, parameter, fmt::join(names, "|"));
}

std::vector<int32_t> eos_ids(const ModelConfig& config) {
  std::vector<int32_t> ids;
  for (const int64_t id : config.eos_token_ids) {
    if (id >= 0 && id < config.vocab_size) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::vector<int32_t> prompt_ids(const std::string& text, const Tokenizer* tokenizer,
                                const ModelConfig& config, bool no_bos) {
  const auto bos = static_cast<int32_t>(config.bos_token_id);
  if (text.empty() && bos >= 0) return {bos};
  if (tokenizer == nullptr) {
    fail(
        "this model has no tokenizer.json, so it cannot read {}; give token ids (--ids 1,2,3), or a "
        "tokenizer "
        "(--tokenizer)",
        text.empty() ? "an empty prompt" : "text");
  }
  if (!text.empty()) {
    std::vector<int32_t> ids = tokenizer->encode(text);
    const int32_t before = no_bos ? -1 : token_before_texts(*tokenizer, bos);
    if (before >= 0) ids.insert(ids.begin(), before);
    return ids;
  }
  try {
    return tokenizer->encode("\n");
  } catch (const Error&) {  // a vocabulary without newline
    return {0};
  }
}

std::string bytes_of(const Tokenizer& tokenizer, int32_t id) {
  return id < tokenizer.vocab_size() ? tokenizer.token_bytes(id) : "\xef\xbf\xbd";
}

std::string TextStream::finish() {
  const std::string rest = stops_.push(stream_.flush());
  return shown(rest + stops_.finish());
}

std::string TextStream::shown(std::string text) {
  if (drop_blank_ && text.starts_with(' ')) text.erase(0, 1);
  if (!text.empty()) drop_blank_ = false;
  return text;
}

}  // namespace gpt
