#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace gpt {

// A vocabulary as stored in the metadata of a GGUF file (keys tokenizer.ggml.*). This is an unchecked copy of
// the file's values; tokenizer_of checks them.
struct VocabData {
  enum class TokenType : int32_t { normal = 1, unknown, control, user_defined, unused, byte };

  std::string model;  // "gpt2": byte-level BPE; "llama": SentencePiece BPE; "rwkv": longest token first, only
                      // supported for single characters
  std::string pre;    // split pattern of a byte-level BPE: "gpt-2", "llama-bpe", ...; empty: default
  std::vector<std::string> tokens;  // by id, as spelled in the file: in the byte-level alphabet or with
                                    // U+2581
  std::vector<float> scores;        // empty or one per token; required for SentencePiece
  std::vector<int32_t> types;       // TokenType; empty (all normal) or one per token
  std::vector<std::string> merges;  // "left right", in order of rank
  SpecialIds special;
  // For SentencePiece only. add_space_prefix: prepend a space to texts (default true).
  // remove_extra_whitespaces: remove spaces at both ends and repeated spaces (default false).
  std::optional<bool> add_space_prefix, remove_extra_whitespaces;
  // For SentencePiece only. The decoded text of the unknown token, by default the text of the token. A GGUF
  // file cannot store it.
  std::optional<std::string> unknown_text = " \xE2\x81\x87 ";
};

// Creates the tokenizer of a vocabulary. `name` is the file name for messages. Throws Error if the vocabulary
// is malformed (lists of unequal length, ids out of range, duplicate tokens, merges of unknown tokens) or of
// an unsupported kind.
std::unique_ptr<Tokenizer> tokenizer_of(const VocabData& data, const std::string& name);

// Tokenizer::vocab_data() is the reverse operation; tokenizer_of creates an equal tokenizer from its result.
// Ids without a token become unused tokens.

}  // namespace gpt
