#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/bpe_tokenizer.h"
#include "text/folder_tokens.h"
#include "text/token_index.h"

namespace gpt::detail {

// The parts of a byte-level BPE as Hugging Face tokenizers writes it; `name` stands for the file in messages.
// Throws Error, naming what it is, for anything that would change ids and is not supported.
BpeParts read_bpe_json(const nlohmann::json& root, const std::string& name);

// Parts that all kinds of BPE have in common.

int64_t read_token_id(const nlohmann::json& value, const std::string& token, const std::string& name);
std::vector<AddedToken> read_added_tokens(const nlohmann::json& root, const std::string& name);
nlohmann::json added_token_json(const AddedToken& token);
// The vocabulary of a model, an object of tokens and ids.
const nlohmann::json& vocab_of(const nlohmann::json& model, const std::string& name);
// Its tokens with their ids, one after the other; none is empty.
void visit_vocab(const nlohmann::json& model, const std::string& name,
                 const std::function<void(const std::string& token, int64_t id)>& visit);
// The merges of a model: ["a", "b"] or, in older files, "a b".
std::vector<Bpe::Merge> read_merges(const nlohmann::json& model, const TokenIndex& index,
                                    const std::string& name);

// The tokenizer.json for vocab.json, an object of tokens and ids, and merges.txt, a merge on each line. The
// files do not say how text is split: the tokenizer class does, without one GPT-1 or GPT-2. Throws Error for
// other classes.
nlohmann::json json_of_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                        const FolderTokens& more, const std::string& name);

}  // namespace gpt::detail
