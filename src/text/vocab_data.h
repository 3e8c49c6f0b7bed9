#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace gpt {

// A vocabulary in the metadata of a GGUF file (keys tokenizer.ggml.*). The values are unchecked copies of the
// values in the file; tokenizer_of checks them.
struct VocabData {
  enum class TokenType : int32_t { normal = 1, unknown, control, user_defined, unused, byte };

  // "gpt2" is byte-level BPE, "llama" is SentencePiece BPE. "rwkv" uses the longest token at each position
  // and is only supported for tokens of a single character.
  std::string model;
  std::string pre;  // split pattern of a byte-level BPE, such as "gpt-2" or "llama-bpe"; empty: default
  // Tokens by id, as spelled in the file: in the byte-level alphabet or with U+2581 for spaces.
  std::vector<std::string> tokens;
  std::vector<float> scores;        // empty or one per token; SentencePiece requires scores
  std::vector<int32_t> types;       // TokenType; empty (all normal) or one per token
  std::vector<std::string> merges;  // "left right", in order of rank
  SpecialIds special;
  // For SentencePiece only. add_space_prefix is true if a space is prepended to texts (default true).
  // remove_extra_whitespaces is true if repeated spaces and spaces at both ends are removed (default false).
  std::optional<bool> add_space_prefix, remove_extra_whitespaces;
  // For SentencePiece only. The decoded text of the unknown token. If unset, the unknown token decodes to its
  // own text. A GGUF file cannot store this setting.
  std::optional<std::string> unknown_text = " \xE2\x81\x87 ";
};

// Creates the tokenizer of a vocabulary. `name` is the file name for messages. Throws Error if the vocabulary
// is malformed (lists of unequal length, ids out of range, duplicate tokens, merges of unknown tokens) or of
// an unsupported kind.
std::unique_ptr<Tokenizer> tokenizer_of(const VocabData& data, const std::string& name);

// Tokenizer::vocab_data() is the inverse of tokenizer_of: passing its result to tokenizer_of creates an equal
// tokenizer. Ids without a token become unused tokens.

}  // namespace gpt
