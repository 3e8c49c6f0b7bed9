#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

// The tokenizer files of two C programs. gpt2_tokenizer.bin of llm.c contains the bytes of every token of a
// byte-level BPE. tokenizer.bin of llama2.c contains the pieces and scores of a SentencePiece model. Numbers
// are little-endian.
namespace gpt {

inline constexpr const char* kLlmcTokenizerFile = "gpt2_tokenizer.bin";
inline constexpr const char* kLlama2cTokenizerFile = "tokenizer.bin";

// Returns the content of a tokenizer file with an entry for each of the model's vocab_size ids. Throws Error
// if the file format cannot represent the tokenizer. Source: train_gpt2.py of llm.c, version 2; tokenizer.py
// of llama2.c.
std::string llmc_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size);
std::string llama2c_tokenizer(const Tokenizer& tokenizer, int64_t vocab_size);

namespace detail {

// Returns true if a file begins with the magic number of llm.c. Files of llama2.c have no magic number.
bool is_llmc_tokenizer(std::string_view bytes);

// Reads a tokenizer from the content of a file in one of these formats. In an llm.c file, the id of a token
// is its rank, and text is split with GPT-2's pattern. Throws Error with the file name and the reason.
std::unique_ptr<Tokenizer> read_llmc_tokenizer(std::string_view bytes, const std::string& name);
std::unique_ptr<Tokenizer> read_llama2c_tokenizer(std::string_view bytes, const std::string& name);

}  // namespace detail
}  // namespace gpt
