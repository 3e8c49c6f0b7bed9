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

// How a tokenizer that is to be trained takes texts apart, by the name of --pattern.
struct TrainPattern {
  std::string_view name, help;
  std::optional<SplitPattern> split;  // nothing: GPT-1's words
};
std::span<const TrainPattern> train_patterns();

// The pieces of a pattern as words, and words as GPT-1 has them: cleaned, in lower case, punctuation alone.
WordSplitter piece_splitter(SplitPattern pattern);
WordSplitter gpt1_splitter();

struct TokenizerTrainOptions {
  SplitPattern pattern = SplitPattern::gpt2;  // not used for GPT-1's words
  int64_t vocab_size = 32768;                 // all ids: bytes or characters, merges, special tokens, <unk>
  std::vector<std::string> special_tokens;    // get the last ids, in this order
};

struct TrainedTokenizer {
  std::string json;         // a tokenizer.json
  int64_t vocab_size = 0;   // smaller than requested if the text has no more pairs
  int64_t text_tokens = 0;  // of the texts that it was trained on
};

// A byte-level BPE for counted pieces: the same merges and ids as `tokenizers` gives with its byte-level
// alphabet as initial alphabet and without special tokens, which follow here. Throws invalid_argument for a
// vocabulary without room for the 256 bytes and the special tokens, Error for special tokens that are empty,
// given twice, or equal to a token that was learned.
TrainedTokenizer train_byte_level_bpe(const WordCounter& pieces, const TokenizerTrainOptions& options,
                                      const BpeTrainProgress& progress = {});

// GPT-1's kind of BPE for counted words: over characters, the last of a word with </w>. Id 0 is <unk>; then
// come the characters by code point, the same with </w>, the merges, the special tokens. Ties between merges
// are broken as above. Throws as above; the vocabulary must have room for <unk>, two tokens for
// every character of the text, and the special tokens.
TrainedTokenizer train_gpt1_bpe(const WordCounter& words, const TokenizerTrainOptions& options,
                                const BpeTrainProgress& progress = {});

// Sets of special tokens by name ("gpt2", "nanochat", "chatml", "llama3"), null for unknown names.
const std::vector<std::string>* special_token_set(std::string_view name);

}  // namespace gpt
