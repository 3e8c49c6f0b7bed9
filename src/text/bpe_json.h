#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/bpe_tokenizer.h"

namespace gpt::detail {

// The parts of a byte-level BPE as Hugging Face tokenizers writes it; `name` stands for the file in messages.
// Throws Error, naming what it is, for anything that would change ids and is not supported.
BpeParts read_bpe_json(const nlohmann::json& root, const std::string& name);

// GPT-2's own two files as one tokenizer.json: an object of tokens and ids, and a merge on each line.
nlohmann::json json_of_vocab_and_merges(std::string_view vocab, std::string_view merges,
                                        const std::string& name);

}  // namespace gpt::detail
