#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/split.h"
#include "text/tokenizer.h"

namespace gpt {

// Properties of a tokenizer, for display.
struct TokenizerFacts {
  struct Added {
    int32_t id;
    std::string text;
    bool special;
  };
  std::string kind;
  int64_t vocab_size = 0;
  int64_t merges = 0;
  std::string pattern;           // regular expression that splits texts into pieces; "" if there is none
  std::vector<Added> added;      // special and other added tokens, by id
  std::vector<int32_t> longest;  // ids of the longest tokens without added tokens, longest first
  bool can_cut = false;          // true if cuts at the positions of text_cut.h do not change ids
  double mean_token_bytes = 0;   // average over all tokens that have bytes, without added tokens
};
TokenizerFacts tokenizer_facts(const Tokenizer& tokenizer, size_t longest = 10);

// Returns the bytes of a token, or "" for an id without a token.
std::string bytes_of_id(const Tokenizer& tokenizer, int64_t id);

// Shows step by step how a text is tokenized. Not optimized for speed.
class Explainer {
 public:
  struct Step {
    int64_t rank;                      // rank of the merge, from 0
    size_t at;                         // index of the new symbol
    std::vector<std::string> symbols;  // bytes of each symbol after the step
  };
  struct Piece {
    std::string text;
    std::vector<std::string> symbols;  // symbols before the first merge: bytes, or characters for GPT-1
    std::vector<Step> steps;           // empty if the tokenizer has no merges
    std::vector<int32_t> ids;
  };

  // The tokenizer must outlive the explainer.
  explicit Explainer(const Tokenizer& tokenizer);

  // Explains how a text is tokenized. Special tokens in the text are treated as plain text. If the split
  // pattern is not known, the whole text is one piece. Throws the errors of Tokenizer::encode.
  std::vector<Piece> explain(std::string_view text) const;

 private:
  std::vector<std::string> words_of(std::string_view text) const;
  Piece explain_piece(std::string_view text) const;

  const Tokenizer& tokenizer_;
  std::optional<SplitPattern> pattern_;
  bool gpt1_ = false;
  std::map<std::pair<std::string, std::string>, int64_t> ranks_;  // by the bytes of the left and right symbol
};

}  // namespace gpt
