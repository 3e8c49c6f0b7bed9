#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe_trainer.h"
#include "text/split.h"
#include "text/word_counts.h"

namespace gpt {

// A value of --pattern, which determines how texts are split when a tokenizer is trained.
struct TrainPattern {
  std::string_view name, help;
  std::optional<SplitPattern> split;  // nullopt: GPT-1's words
};
std::span<const TrainPattern> train_patterns();

// piece_splitter() returns the pieces of a pattern as words. gpt1_splitter() returns the words of GPT-1:
// normalized, in lower case, with punctuation as separate words.
WordSplitter piece_splitter(SplitPattern pattern);
WordSplitter gpt1_splitter();

struct TokenizerTrainOptions {
  SplitPattern pattern = SplitPattern::gpt2;  // ignored for GPT-1's words
  int64_t vocab_size = 32768;                 // number of ids: bytes or characters, merges, special tokens,
                                              // <unk>
  std::vector<std::string> special_tokens;    // have the last ids, in this order
};

struct TrainedTokenizer {
  std::string json;         // a tokenizer.json
  int64_t vocab_size = 0;   // smaller than requested if the text has no more pairs
  int64_t text_tokens = 0;  // number of tokens in the training text
};

// Trains a byte-level BPE on counted pieces. The merges and ids are those of Hugging Face `tokenizers` with
// its byte-level alphabet as the initial alphabet and without special tokens. The special tokens have the
// last ids. Throws invalid_argument if the vocabulary is too small for the 256 bytes and the special tokens.
// Throws Error if a special token is empty, duplicate, or equal to a learned token.
TrainedTokenizer train_byte_level_bpe(const WordCounter& pieces, const TokenizerTrainOptions& options,
                                      const BpeTrainProgress& progress = {});

// Trains a BPE like that of GPT-1 on counted words. The symbols are characters, and the last character of a
// word carries </w>. Id 0 is <unk>. It is followed by the characters in the order of their code points, the
// same characters with </w>, the merges, and the special tokens. Breaks ties and throws errors like
// train_byte_level_bpe. The vocabulary must have room for <unk>, two tokens for each character of the text,
// and the special tokens.
TrainedTokenizer train_gpt1_bpe(const WordCounter& words, const TokenizerTrainOptions& options,
                                const BpeTrainProgress& progress = {});

// Returns a set of special tokens by name ("gpt2", "nanochat", "chatml", "llama3"), or null for unknown
// names.
const std::vector<std::string>* special_token_set(std::string_view name);

}  // namespace gpt
