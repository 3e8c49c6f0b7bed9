#include "text/folder_tokens.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "text/bpe_json.h"
#include "text/json_parts.h"
#include "text/post_processor.h"
#include "text/token_index.h"
#include "text/tokenizer_kinds.h"

namespace gpt::detail {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr uint64_t kMaxFileBytes = uint64_t{16} << 20;
constexpr std::array<std::string_view, 7> kStandardNames = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

// Reads a JSON object. The keys keep their order, because tokens are numbered in this order. Returns null if
// the file does not exist.
OrderedJson read_object(const std::string& folder, const char* name) {
  const std::string path = folder + "/" + name;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const std::string text = read_file(path, kMaxFileBytes);
  parse_limited_json(text, path);
  OrderedJson found = OrderedJson::parse(text);
  if (!found.is_object()) fail("{}: expected an object, found {}", path, found.type_name());
  return found;
}

bool flag(const OrderedJson& value, const char* key, bool other) {
  const auto found = value.find(key);
  return found != value.end() && found->is_boolean() ? found->get<bool>() : other;
}

// Reads a token of a Hugging Face file, which is a string or an object with a "content" and flags.
std::optional<AddedToken> token_of(const OrderedJson& value, bool special) {
  AddedToken token = {.id = -1, .text = "", .special = true};
  if (value.is_string()) {
    token.text = value.get<std::string>();
  } else if (value.is_object() && value.value("content", OrderedJson()).is_string()) {
    token = {.id = -1,
             .text = value["content"].get<std::string>(),
             .special = special || flag(value, "special", false),
             .single_word = flag(value, "single_word", false),
             .lstrip = flag(value, "lstrip", false),
             .rstrip = flag(value, "rstrip", false)};
    token.normalized = flag(value, "normalized", !token.special);
  }
  return token.text.empty() ? std::nullopt : std::optional(token);
}

int32_t id_of(const std::string& number, const std::string& place) {
  const auto id = parse_number<int64_t>(number);
  if (!id || *id < 0 || *id >= kMaxVocab)
    fail("{}: expected an id from 0 to {}, found {}", place, kMaxVocab - 1, printable_text(number, 40));
  return static_cast<int32_t>(*id);
}

bool same_flags(const AddedToken& a, const AddedToken& b) {
  return a.special == b.special && a.single_word == b.single_word && a.lstrip == b.lstrip &&
         a.rstrip == b.rstrip && a.normalized == b.normalized;
}

// The special tokens of a tokenizer class in transformers. Such a token is used if no file sets a token with
// this name.
struct ClassDefault {
  std::string_view tokenizer_class;
  const char *name, *text;
};
constexpr ClassDefault kDefaults[] = {
    {"GPT2Tokenizer", "bos_token", "<|endoftext|>"},  {"GPT2Tokenizer", "eos_token", "<|endoftext|>"},
    {"GPT2Tokenizer", "unk_token", "<|endoftext|>"},  {"Qwen2Tokenizer", "eos_token", "<|endoftext|>"},
    {"Qwen2Tokenizer", "unk_token", "<|endoftext|>"}, {"Qwen2Tokenizer", "pad_token", "<|endoftext|>"},
    {"LlamaTokenizer", "bos_token", "<s>"},           {"LlamaTokenizer", "eos_token", "</s>"},
    {"LlamaTokenizer", "unk_token", "<unk>"},         {"OpenAIGPTTokenizer", "unk_token", "<unk>"},
};

// The tokenizer class for models of a model_type that have vocab.json and merges.txt. This class is used if
// no file names a class. Source: TOKENIZER_MAPPING_NAMES of transformers.
struct ModelClass {
  std::string_view model_type;
  const char* tokenizer_class;
};
constexpr ModelClass kModelClasses[] = {
    {"gpt2", "GPT2Tokenizer"},       {"gpt_neo", "GPT2Tokenizer"},    {"gptj", "GPT2Tokenizer"},
    {"codegen", "GPT2Tokenizer"},    {"opt", "GPT2Tokenizer"},        {"phi", "GPT2Tokenizer"},
    {"starcoder2", "GPT2Tokenizer"}, {"dbrx", "GPT2Tokenizer"},       {"whisper", "WhisperTokenizer"},
    {"qwen2_moe", "Qwen2Tokenizer"}, {"qwen2_vl", "Qwen2Tokenizer"},  {"qwen2_5_vl", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},     {"qwen3_moe", "Qwen2Tokenizer"}, {"qwen3_next", "Qwen2Tokenizer"},
    {"qwen3_vl", "Qwen2Tokenizer"},
};

bool is_standard(const std::string& name) {
  return std::ranges::find(kStandardNames, name) != kStandardNames.end();
}

std::string string_in(const OrderedJson& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

class FolderReader {
 public:
  FolderReader(const std::string& folder, VocabularyFile vocabulary)
      : folder_(folder), vocabulary_(vocabulary), config_(read_object(folder, "tokenizer_config.json")) {}

  FolderTokens read() {
    read_config();
    if (config_.contains("added_tokens_decoder")) {
      read_decoder();
    } else {
      read_special_tokens_map();
      read_added_tokens_file();
    }
    tokens_.tokenizer_class = tokenizer_class();
    add_defaults(tokens_.tokenizer_class);
    std::ranges::stable_sort(tokens_.listed, {}, &AddedToken::id);
    add_named();
    return std::move(tokens_);
  }

 private:
  void read_config() {
    for (const char* key : {"extra_special_tokens", "additional_special_tokens"}) {
      if (extra_.empty() && config_.contains(key)) extra_ = config_[key];
    }
    take_names(config_, specific_);
    take_extra_names();
    const auto specific = config_.find("model_specific_special_tokens");
    if (specific_.empty() && specific != config_.end() && specific->is_object()) specific_ = *specific;
    tokens_.add_bos = flag(config_, "add_bos_token", false);
    tokens_.add_eos = flag(config_, "add_eos_token", false);
  }

  // Returns the class that AutoTokenizer of transformers chooses, without the suffix "Fast", or "" if the
  // class is not known.
  std::string tokenizer_class() {
    const OrderedJson model = read_object(folder_, "config.json");
    const std::string type = tokens_.model_type = string_in(model, "model_type");
    if (type == "mistral") return "";
    std::string name = string_in(config_, "tokenizer_class");
    if (name.empty()) name = string_in(model, "tokenizer_class");
    if (name.ends_with("Fast")) name.resize(name.size() - 4);
    if (name == "LlamaTokenizer" && vocabulary_ == VocabularyFile::byte_level_json) return "";
    const bool has_files =
        vocabulary_ == VocabularyFile::vocab_and_merges || !config_.is_null() || !map_.is_null();
    if (name.empty() && has_files && type == "gpt2") return "GPT2Tokenizer";
    if (name.empty() && has_files && type == "openai-gpt") return "OpenAIGPTTokenizer";
    // For this model_type, transformers ignores the class named in the files.
    if ((!name.empty() || has_files) && type == "qwen2") return "Qwen2Tokenizer";
    if (name.empty() && vocabulary_ == VocabularyFile::vocab_and_merges) {
      const ModelClass* const known = find_by(kModelClasses, &ModelClass::model_type, type);
      if (known != nullptr) return known->tokenizer_class;
    }
    return name;
  }

  void add_defaults(const std::string& tokenizer_class) {
    for (const ClassDefault& token : kDefaults) {
      if (token.tokenizer_class == tokenizer_class && !names_.contains(token.name))
        names_[token.name] = token.text;
    }
    if (tokenizer_class == "GPT2Tokenizer" || vocabulary_ == VocabularyFile::vocab_and_merges)
      tokens_.prefix_space = flag(config_, "add_prefix_space", false);
    tokens_.bos = text_of("bos_token");
    tokens_.eos = text_of("eos_token");
  }

  std::optional<std::string> text_of(const char* name) const {
    const auto found = names_.find(name);
    if (found == names_.end()) return std::nullopt;
    const auto token = token_of(*found, true);
    return token ? token->text : "";
  }

  void read_decoder() {
    for (const auto& [number, value] : config_["added_tokens_decoder"].items()) {
      const std::string place = folder_ + "/tokenizer_config.json: added_tokens_decoder";
      auto token = value.is_object() ? token_of(value, false) : std::nullopt;
      if (!token) fail("{}: {}: expected an object with a \"content\"", place, printable_text(number, 40));
      token->id = id_of(number, place);
      tokens_.listed.push_back(*std::move(token));
    }
  }

  // The tokens in this legacy file are special if the configuration names them.
  void read_added_tokens_file() {
    const OrderedJson file = read_object(folder_, "added_tokens.json");
    for (const auto& [text, id] : file.items()) {
      const bool special = is_special(text);
      const std::string place = folder_ + "/added_tokens.json: " + printable_text(text, 40);
      if (!text.empty())
        tokens_.listed.push_back(
            {.id = id_of(id.dump(), place), .text = text, .special = special, .normalized = !special});
    }
  }

  bool is_special(const std::string& text) const {
    const auto is_text = [&](const OrderedJson& value) {
      const auto token = token_of(value, true);
      return token && token->text == text;
    };
    return std::ranges::any_of(kStandardNames,
                               [&](std::string_view name) {
                                 const auto found = names_.find(std::string(name));
                                 return found != names_.end() && is_text(*found);
                               }) ||
           (extra_.is_array() && std::ranges::any_of(extra_, is_text));
  }

  void read_special_tokens_map() {
    map_ = read_object(folder_, "special_tokens_map.json");
    take_names(map_, unlisted_);
    const auto extra = map_.find("extra_special_tokens");
    if (extra != map_.end() && extra->is_array() && extra_.is_array()) {
      extra_.insert(extra_.end(), extra->begin(), extra->end());
    } else if (extra != map_.end()) {
      extra_ = *extra;
      take_extra_names();
    }
    // If the vocabulary is a SentencePiece model, transformers ignores additional_special_tokens and uses the
    // control pieces of the model.
    const auto additional = map_.find("additional_special_tokens");
    if (extra_.is_null() && additional != map_.end() && vocabulary_ != VocabularyFile::sentencepiece)
      extra_ = *additional;
  }

  // Collects the special tokens that `object` defines under names like "pad_token". Tokens with a name that
  // not all models share are stored in `others`.
  void take_names(const OrderedJson& object, OrderedJson& others) {
    for (const auto& [name, value] : object.items()) {
      if (is_standard(name)) names_[name] = value;
      if (is_standard(name) || !name.ends_with("_token")) continue;
      if (value.is_string()) others[name] = value;
      if (value.is_object()) unlisted_[name] = value;
    }
  }

  // If the extra tokens are an object, the keys are the names of the tokens.
  void take_extra_names() {
    if (!extra_.is_object()) return;
    specific_.update(extra_);
    extra_ = nullptr;
  }

  void add_named() {
    const auto add = [&](const OrderedJson& value, bool has_name) {
      auto token = token_of(value, true);
      if (!token) return;
      if (has_name) tokens_.names.insert(token->text);
      tokens_.named.push_back(*std::move(token));
    };
    for (const std::string_view name : kStandardNames) {
      if (names_.contains(std::string(name))) add(names_[std::string(name)], true);
    }
    unlisted_.update(specific_);
    for (const auto& entry : unlisted_.items())
      add(entry.value(), true);
    if (!extra_.is_array()) return;
    for (const OrderedJson& value : extra_)
      add(value, false);
  }

  const std::string& folder_;
  const VocabularyFile vocabulary_;
  OrderedJson config_, map_, extra_;
  // Special tokens by name. names_ contains the tokens with a name that all models share. specific_ contains
  // other tokens that tokenizer_config.json defines as strings, as extra tokens or as model-specific tokens.
  // unlisted_ contains all remaining tokens.
  OrderedJson names_ = OrderedJson::object(), specific_ = OrderedJson::object(),
              unlisted_ = OrderedJson::object();
  FolderTokens tokens_;
};

}  // namespace

FolderTokens read_folder_tokens(const std::string& folder, VocabularyFile vocabulary) {
  return FolderReader(folder, vocabulary).read();
}

std::vector<AddedToken> with_folder_tokens(std::vector<AddedToken> own, const FolderTokens& more,
                                           const VocabularyView& vocabulary, int64_t limit) {
  std::unordered_map<std::string, size_t> places;
  int64_t next = vocabulary.size;
  for (size_t i = 0; i < own.size(); ++i) {
    places.emplace(own[i].text, i);
    next = std::max<int64_t>(next, own[i].id + 1);
  }
  const auto add = [&](AddedToken token) {
    const auto found = places.find(token.text);
    const bool same = found != places.end() && same_flags(own[found->second], token);
    token.special = token.special || (!same && more.names.contains(token.text));
    if (found != places.end()) {
      token.id = own[found->second].id;
      own[found->second] = std::move(token);
      return;
    }
    const int64_t in_vocabulary = vocabulary.id_of(token.text);
    const bool given = vocabulary.keeps_ids && token.id >= vocabulary.size;
    const int64_t id = in_vocabulary >= 0 ? in_vocabulary : given ? token.id : next;
    if (id >= std::min(limit, kMaxVocab)) return;
    token.id = static_cast<int32_t>(id);
    next = std::max(next, id + 1);
    places.emplace(token.text, own.size());
    own.push_back(std::move(token));
  };
  for (const AddedToken& token : more.listed)
    add(token);
  std::unordered_set<std::string> known;
  for (const AddedToken& token : own)
    known.insert(token.text);
  for (const AddedToken& token : more.named) {  // of two tokens with the same text, the last one is used
    if (!known.contains(token.text)) add(token);
  }
  std::ranges::stable_sort(own, {}, &AddedToken::id);
  return own;
}

void add_folder_tokens(nlohmann::json& root, const FolderTokens& more, int64_t limit,
                       const std::string& name) {
  if (!root.is_object() || !member(member(root, "model"), "vocab").is_object()) return;
  if (more.prefix_space && root["pre_tokenizer"].is_object() && has_type(root["pre_tokenizer"], "ByteLevel"))
    root["pre_tokenizer"]["add_prefix_space"] = *more.prefix_space;
  if (more.empty()) return;
  const nlohmann::json& vocab = root["model"]["vocab"];
  const auto id_of = [&](const std::string& text) -> int64_t {
    const nlohmann::json& id = member(vocab, text.c_str());
    return id.is_null() ? -1 : read_token_id(id, text, name);
  };
  root["added_tokens"] = transformed(with_folder_tokens(read_added_tokens(root, name), more,
                                                        {.id_of = id_of, .size = std::ssize(vocab)}, limit),
                                     added_token_json);
}

void add_folder_ends(nlohmann::json& root, const FolderTokens& more) {
  SpecialIds ends = {.add_bos = more.add_bos, .add_eos = more.add_eos};
  std::unordered_map<int64_t, std::string> texts;
  const auto find = [&](const std::string& text, const nlohmann::json& id) {
    if (text == more.bos) ends.bos = id.get<int64_t>();
    if (text == more.eos) ends.eos = id.get<int64_t>();
    texts.emplace(id.get<int64_t>(), text);
  };
  for (const nlohmann::json& token : root["added_tokens"])
    find(token["content"], token["id"]);
  root["post_processor"] = post_processor_json(ends, [&](int64_t id) { return texts.at(id); });
}

}  // namespace gpt::detail
