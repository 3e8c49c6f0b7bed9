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

// A value of --pattern, which defines how texts are split when a tokenizer is trained.
struct TrainPattern {
  std::string_view name, help;
  std::optional<SplitPattern> split;  // unset for GPT-1's words
};
std::span<const TrainPattern> train_patterns();

// piece_splitter() returns the pieces of a split pattern as words. gpt1_splitter() returns the words of
// GPT-1, which are normalized and in lower case, with punctuation as separate words.
WordSplitter piece_splitter(SplitPattern pattern);
WordSplitter gpt1_splitter();

struct TokenizerTrainOptions {
  SplitPattern pattern = SplitPattern::gpt2;  // not used for GPT-1's words
  // Number of ids, including bytes or characters, merges, special tokens, and <unk> for GPT-1's words.
  int64_t vocab_size = 32768;
  std::vector<std::string> special_tokens;  // special tokens have the last ids, in this order
};

struct TrainedTokenizer {
  std::string json;         // content of the tokenizer.json
  int64_t vocab_size = 0;   // smaller than requested if no pairs are left in the text
  int64_t text_tokens = 0;  // number of tokens in the texts used for training
};

// Trains a byte-level BPE on counted pieces. The merges and ids equal those of Hugging Face `tokenizers`,
// trained with the byte-level alphabet as initial alphabet and without special tokens. The special tokens
// have the ids after these tokens. Throws invalid_argument if the vocabulary is too small for the 256 bytes
// and the special tokens. Throws Error if a special token is empty, is given twice, or equals a learned
// token.
TrainedTokenizer train_byte_level_bpe(const WordCounter& pieces, const TokenizerTrainOptions& options,
                                      const BpeTrainProgress& progress = {});

// Trains a BPE like that of GPT-1 on counted words. The initial symbols are characters; the last character of
// a word has the suffix </w>. Id 0 is <unk>. The next ids are the characters in the order of their code
// points, the same characters with </w>, the merges, and the special tokens. Ties and errors are handled as
// in train_byte_level_bpe. The vocabulary must be large enough for <unk>, two tokens per character of the
// text, and the special tokens.
TrainedTokenizer train_gpt1_bpe(const WordCounter& words, const TokenizerTrainOptions& options,
                                const BpeTrainProgress& progress = {});

// Returns a set of special tokens by name ("gpt2", "nanochat", "chatml", "llama3"), or null for unknown
// names.
const std::vector<std::string>* special_token_set(std::string_view name);

}  // namespace gpt
