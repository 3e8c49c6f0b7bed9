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
  SplitPattern split;
};
std::span<const TrainPattern> train_patterns();

// The pieces of a pattern as words.
WordSplitter piece_splitter(SplitPattern pattern);

struct TokenizerTrainOptions {
  SplitPattern pattern = SplitPattern::gpt2;
  int64_t vocab_size = 32768;               // bytes and merges; special tokens come on top
  std::vector<std::string> special_tokens;  // get the ids behind these, in this order
};

struct TrainedTokenizer {
  std::string json;         // a tokenizer.json
  int64_t vocab_size = 0;   // with special tokens; smaller than asked for where the text has no more pairs
  int64_t text_tokens = 0;  // of the texts that it was trained on
};

// A byte-level BPE for counted pieces: the same merges and ids as `tokenizers` gives with its byte-level
// alphabet as initial alphabet and without special tokens; these follow. Throws UsageError for a vocabulary
// below 256 tokens, Error for special tokens that are empty, given twice, or equal to a token that was
// learned.
TrainedTokenizer train_byte_level_bpe(const WordCounter& pieces, const TokenizerTrainOptions& options,
                                      const BpeTrainProgress& progress = {});

// Sets of special tokens by name ("gpt2", "nanochat", "chatml", "llama3"), null for unknown names.
const std::vector<std::string>* special_token_set(std::string_view name);

}  // namespace gpt
