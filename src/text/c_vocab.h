#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

// The files of tokens that C programs read beside their models: gpt2_tokenizer.bin of llm.c (bytes of every
// token of a byte-level BPE) and tokenizer.bin of llama2.c (pieces and scores of SentencePiece). Numbers are
// little-endian.
namespace gpt {

inline constexpr const char* kLlmcTokenizerFile = "gpt2_tokenizer.bin";
inline constexpr const char* kLlama2cTokenizerFile = "tokenizer.bin";

// A tokenizer as such a file, with an entry for each of the model's vocab_size ids. Throws Error where the
// format has no place for the tokenizer. Source: train_gpt2.py of llm.c, version 2; tokenizer.py of llama2.c.
std::string llmc_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size);
std::string llama2c_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size);

namespace detail {

// Whether a file begins as those of llm.c do; llama2.c's have no such mark.
bool is_llmc_tokenizer(std::string_view bytes);

// The tokenizers of such files. Ids of llm.c's are ranks, text is split as GPT-2 does. Throws Error naming
// the file and what is wrong with it.
std::unique_ptr<Tokenizer> read_llmc_tokenizer(std::string_view bytes, const std::string& name);
std::unique_ptr<Tokenizer> read_llama2c_tokenizer(std::string_view bytes, const std::string& name);

}  // namespace detail
}  // namespace gpt
