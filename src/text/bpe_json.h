#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/bpe_tokenizer.h"
#include "text/folder_tokens.h"
#include "text/token_index.h"

namespace gpt::detail {

// Reads a byte-level BPE from a Hugging Face tokenizer.json. `name` is the file name for messages. Throws
// Error with the name of the setting for every unsupported setting that would change ids.
BpeParts read_bpe_json(const nlohmann::json& root, const std::string& name);

// The following functions are shared by all kinds of BPE.

int64_t read_token_id(const nlohmann::json& value, const std::string& token, const std::string& name);
std::vector<AddedToken> read_added_tokens(const nlohmann::json& root, const std::string& name);
nlohmann::json added_token_json(const AddedToken& token);
// Returns the vocabulary of a model, an object of tokens and ids.
const nlohmann::json& vocab_of(const nlohmann::json& model, const std::string& name);
// Calls `visit` with each token of the vocabulary and its id. Throws Error for an empty token.
void visit_vocab(const nlohmann::json& model, const std::string& name,
                 const std::function<void(const std::string& token, int64_t id)>& visit);
// Reads the merges of a model, which are written as ["a", "b"] or, in older files, as "a b".
std::vector<Bpe::Merge> read_merges(const nlohmann::json& model, const TokenIndex& index,
                                    const std::string& name);

// Creates a tokenizer.json from vocab.json (an object of tokens and ids) and merges.txt (one merge per line).
// These files do not define how text is split, so the split pattern of the tokenizer class is used. If the
// class is not known, GPT-1 or GPT-2 is assumed. Throws Error for unsupported classes.
nlohmann::json json_of_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                        const FolderTokens& more, const std::string& name);

}  // namespace gpt::detail
