#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace gpt {

// A vocabulary as the metadata of a GGUF file describes it (keys tokenizer.ggml.*). A plain copy of what a
// file says: nothing of it is checked before tokenizer_of.
struct VocabData {
  enum class TokenType : int32_t { normal = 1, unknown, control, user_defined, unused, byte };

  std::string model;  // "gpt2": byte-level BPE; "llama": SentencePiece BPE; "rwkv": the longest
                      // token wins, read for single characters alone
  std::string pre;    // how a byte-level BPE splits text: "gpt-2", "llama-bpe", ...; empty: default
  std::vector<std::string> tokens;  // by id, as the file spells them: byte-level alphabet, or with U+2581
  std::vector<float> scores;        // empty or one per token; SentencePiece needs them
  std::vector<int32_t> types;       // TokenType; empty (all normal) or one per token
  std::vector<std::string> merges;  // "left right", in order of rank
  SpecialIds special;
  // SentencePiece: whether a blank is put in front of texts (absent: yes), and whether blanks at both ends
  // and repeated ones are taken away (absent: no).
  std::optional<bool> add_space_prefix, remove_extra_whitespaces;
  // SentencePiece: what the unknown token decodes to, its own text if none. A GGUF file cannot say it.
  std::optional<std::string> unknown_text = " \xE2\x81\x87 ";
};

// The tokenizer that a vocabulary stands for; `name` is its file, for messages. Throws Error for what is
// malformed (lists of unequal length, ids out of range, two equal tokens, merges of unknown tokens) or of a
// kind that cannot be read.
std::unique_ptr<Tokenizer> tokenizer_of(const VocabData& data, const std::string& name);

// The reverse is Tokenizer::vocab_data(), from which tokenizer_of makes an equal tokenizer; ids without a
// token become unused ones.

}  // namespace gpt
