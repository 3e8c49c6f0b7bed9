#include "convert/gguf_vocab.h"

#include <fmt/core.h>

namespace gpt {
namespace {

constexpr const char *kModel = "tokenizer.ggml.model", *kPre = "tokenizer.ggml.pre";
constexpr const char *kTokens = "tokenizer.ggml.tokens", *kScores = "tokenizer.ggml.scores";
constexpr const char *kTypes = "tokenizer.ggml.token_type", *kMerges = "tokenizer.ggml.merges";
constexpr const char* kSpacePrefix = "tokenizer.ggml.add_space_prefix";
constexpr const char* kCollapse = "tokenizer.ggml.remove_extra_whitespaces";
constexpr const char *kAddBos = "tokenizer.ggml.add_bos_token", *kAddEos = "tokenizer.ggml.add_eos_token";

constexpr const char *kChatTemplate = "tokenizer.chat_template", *kTemplateNames = "tokenizer.chat_templates";

struct SpecialKey {
  const char* key;
  int64_t SpecialIds::*id;
};
constexpr SpecialKey kSpecial[] = {{"tokenizer.ggml.bos_token_id", &SpecialIds::bos},
                                   {"tokenizer.ggml.eos_token_id", &SpecialIds::eos},
                                   {"tokenizer.ggml.unknown_token_id", &SpecialIds::unk},
                                   {"tokenizer.ggml.padding_token_id", &SpecialIds::pad}};

std::vector<std::string> copies(const std::vector<std::string_view>& views) {
  return {views.begin(), views.end()};
}

}  // namespace

std::optional<VocabData> gguf_vocab(const GgufFile& file) {
  const auto model = file.string(kModel);
  const auto tokens = file.strings(kTokens);
  if (!model || *model == "no_vocab" || !tokens) return {};
  VocabData data;
  data.model = *model;
  data.pre = file.string(kPre).value_or("");
  data.tokens = copies(*tokens);
  data.scores = file.numbers(kScores).value_or(std::vector<float>{});
  for (const int64_t type : file.integers(kTypes).value_or(std::vector<int64_t>{}))
    data.types.push_back(static_cast<int32_t>(std::clamp<int64_t>(type, -1, INT32_MAX)));
  data.merges = copies(file.strings(kMerges).value_or(std::vector<std::string_view>{}));
  for (const SpecialKey& special : kSpecial) {
    const int64_t id = file.integer(special.key).value_or(-1);
    // Some converters write UINT32_MAX if there is no token.
    data.special.*special.id = id == int64_t{UINT32_MAX} ? -1 : id;
  }
  data.special.add_bos = file.boolean(kAddBos);
  data.special.add_eos = file.boolean(kAddEos);
  data.add_space_prefix = file.boolean(kSpacePrefix);
  data.remove_extra_whitespaces = file.boolean(kCollapse);
  return data;
}

std::unique_ptr<Tokenizer> gguf_tokenizer(const std::string& path) {
  const auto vocab = gguf_vocab(GgufFile(path));
  if (!vocab) fail("{} has no tokenizer", path);
  return tokenizer_of(*vocab, path);
}

void add_special_ids(GgufMetadata& metadata, const SpecialIds& ids) {
  for (const SpecialKey& special : kSpecial) {
    const int64_t id = ids.*special.id;
    if (id >= 0) metadata.add(special.key, static_cast<uint32_t>(id));
  }
}

void add_vocab(GgufMetadata& metadata, VocabData data, int64_t vocab_size) {
  const auto wanted = static_cast<size_t>(vocab_size);
  const auto filler = static_cast<int32_t>(VocabData::TokenType::unused);
  if (data.types.empty()) {
    data.types.assign(data.tokens.size(), static_cast<int32_t>(VocabData::TokenType::normal));
  }
  for (size_t id = data.tokens.size(); id < wanted; ++id) {
    data.tokens.push_back(fmt::format("[PAD{}]", id));
    data.types.push_back(filler);
    if (!data.scores.empty()) data.scores.push_back(0);
  }
  metadata.add(kModel, data.model);
  if (!data.pre.empty()) metadata.add(kPre, data.pre);
  metadata.add(kTokens, data.tokens);
  if (!data.scores.empty()) metadata.add(kScores, data.scores);
  metadata.add(kTypes, data.types);
  // llama.cpp requires kMerges for byte-level BPE, even if there are no merges.
  if (!data.merges.empty() || data.model == "gpt2") metadata.add(kMerges, data.merges);
  add_special_ids(metadata, data.special);
  if (data.special.add_bos) metadata.add(kAddBos, *data.special.add_bos);
  if (data.special.add_eos) metadata.add(kAddEos, *data.special.add_eos);
  if (data.add_space_prefix) metadata.add(kSpacePrefix, *data.add_space_prefix);
  if (data.remove_extra_whitespaces) metadata.add(kCollapse, *data.remove_extra_whitespaces);
}

// The default template is stored under the key kChatTemplate. Each other template is stored under a key that
// ends with its name. The key kTemplateNames lists these names.
ChatTemplates gguf_chat_templates(const GgufFile& file) {
  ChatTemplates templates;
  const auto add = [&](const std::string& name, const std::string& key) {
    const auto text = file.string(key);
    if (text && !text->empty()) templates[name] = *text;
  };
  for (const std::string& name :
       copies(file.strings(kTemplateNames).value_or(std::vector<std::string_view>{})))
    add(name, fmt::format("{}.{}", kChatTemplate, name));
  add(kDefaultTemplate, kChatTemplate);
  return templates;
}

void add_chat_templates(GgufMetadata& metadata, const ChatTemplates& templates) {
  std::vector<std::string> names;
  for (const auto& [name, jinja] : templates) {
    if (name == kDefaultTemplate) {
      metadata.add(kChatTemplate, jinja);
    } else {
      names.push_back(name);
      metadata.add(fmt::format("{}.{}", kChatTemplate, name), jinja);
    }
  }
  if (!names.empty()) metadata.add(kTemplateNames, names);
}

}  // namespace gpt
