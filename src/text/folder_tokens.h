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

// Loads the tokenizer of a model folder like load_tokenizer, but drops added tokens with ids >= `vocab_size`.
// The model in the folder has no embeddings for these ids.
std::unique_ptr<Tokenizer> load_model_tokenizer(const std::string& folder, int64_t vocab_size);

namespace detail {

// The tokens that the transformers files in a model's folder add to the vocabulary. The main file is
// tokenizer_config.json. If this file lists no added tokens, added_tokens.json and special_tokens_map.json
// are used too. The special tokens of the tokenizer class are included too. The id of a token is -1 if no
// file defines it. Source: AutoTokenizer and PreTrainedTokenizerBase._from_pretrained of transformers 5.
struct FolderTokens {
  std::vector<AddedToken> listed;         // by id; these flags replace the flags of tokens with the same text
  std::vector<AddedToken> named;          // special tokens, only added if no token has the same text
  std::unordered_set<std::string> names;  // texts of tokens named like "pad_token", which are always special

  // The class that AutoTokenizer chooses, without the suffix "Fast", and the model_type in config.json. Empty
  // if unknown.
  std::string tokenizer_class, model_type;

  std::optional<bool> prefix_space;       // true if a ByteLevel prepends a space to texts
  bool add_bos = false, add_eos = false;  // not set for tokenizer.json, which has a post_processor
  std::optional<std::string> bos, eos;    // texts of the begin and end token; "" means none

  bool empty() const { return listed.empty() && named.empty(); }
};
enum class VocabularyFile : uint8_t { json, byte_level_json, vocab_and_merges, sentencepiece, ranks };
// Throws Error for invalid files.
FolderTokens read_folder_tokens(const std::string& folder, VocabularyFile vocabulary);

// A vocabulary to which tokens are added.
struct VocabularyView {
  std::function<int64_t(const std::string&)> id_of;  // returns the id of a text, or -1 if there is none
  int64_t size;                                      // the first free id
  bool keeps_ids = false;  // true if listed tokens keep the ids in the files, as for tiktoken ranks
};

// Combines the added tokens of a tokenizer with the added tokens of its folder, sorted by id. As in Hugging
// Face tokenizers, a token in the vocabulary keeps its id, and other tokens are numbered from the end of the
// vocabulary. Tokens with ids >= `limit` are dropped, because the model has no embeddings for them.
std::vector<AddedToken> with_folder_tokens(std::vector<AddedToken> own, const FolderTokens& more,
                                           const VocabularyView& vocabulary, int64_t limit);

// Adds the tokens of a folder to a tokenizer.json. `name` is the name of the file in messages.
void add_folder_tokens(nlohmann::json& root, const FolderTokens& more, int64_t limit,
                       const std::string& name);

// Adds the begin and end tokens of the folder, because vocab.json and merges.txt do not define them.
void add_folder_ends(nlohmann::json& root, const FolderTokens& more);

}  // namespace detail
}  // namespace gpt
