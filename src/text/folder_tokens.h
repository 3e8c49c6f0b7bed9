#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "text/added_tokens.h"

namespace gpt {

// load_tokenizer for a folder, without the added tokens that have ids from `vocab_size` on: the model of the
// folder has no embeddings for them.
std::unique_ptr<Tokenizer> load_model_tokenizer(const std::string& folder, int64_t vocab_size);

namespace detail {

// The tokens that the files of transformers in a model's folder add to its vocabulary: tokenizer_config.json,
// and added_tokens.json and special_tokens_map.json where the first lists no added tokens; and those of the
// tokenizer class that the files name. `id` is -1 where a file does not give one. Source: AutoTokenizer and
// PreTrainedTokenizerBase._from_pretrained of transformers 5.
struct FolderTokens {
  std::vector<AddedToken> listed;  // by id; they replace the flags of tokens with the same text
  std::vector<AddedToken> named;   // special tokens, only added if no token has their text
  std::unordered_set<std::string>
      names;  // texts of tokens with names like "pad_token", which are always special

  // The class that AutoTokenizer chooses, without "Fast", and the model_type of config.json; "": not given.
  std::string tokenizer_class, model_type;

  std::optional<bool> prefix_space;       // whether a ByteLevel puts a space in front of texts
  bool add_bos = false, add_eos = false;  // of files other than tokenizer.json, which has a post_processor
  std::optional<std::string> bos, eos;    // their texts, "": none

  bool empty() const { return listed.empty() && named.empty(); }
};
enum class VocabularyFile : uint8_t { json, byte_level_json, vocab_and_merges, sentencepiece, ranks };
// Throws Error for damaged files.
FolderTokens read_folder_tokens(const std::string& folder, VocabularyFile vocabulary);

// A vocabulary to which tokens are added.
struct VocabularyView {
  std::function<int64_t(const std::string&)> id_of;  // -1: no token has the text
  int64_t size;                                      // ids from here on are free
  bool keeps_ids = false;  // listed tokens keep the ids that the files give them, as for tiktoken's ranks
};

// The added tokens of a tokenizer together with those of its folder, by id. As in tokenizers, a token of the
// vocabulary keeps its id and others are numbered from the end. Leaves out tokens whose ids would be `limit`
// or more: a model has no embeddings for them.
std::vector<AddedToken> with_folder_tokens(std::vector<AddedToken> own, const FolderTokens& more,
                                           const VocabularyView& vocabulary, int64_t limit);

// The same for a tokenizer.json; `name` stands for it in messages.
void add_folder_tokens(nlohmann::json& root, const FolderTokens& more, int64_t limit,
                       const std::string& name);

// Lets texts begin and end with the tokens that the folder says: vocab.json and merges.txt say nothing of it.
void add_folder_ends(nlohmann::json& root, const FolderTokens& more);

}  // namespace detail
}  // namespace gpt
