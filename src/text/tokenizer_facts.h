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

// What a tokenizer is made of, for people.
struct TokenizerFacts {
  struct Added {
    int32_t id;
    std::string text;
    bool special;
  };
  std::string kind;
  int64_t vocab_size = 0;
  int64_t merges = 0;
  std::string pattern;           // the regular expression that cuts texts into pieces; "" if there is none
  std::vector<Added> added;      // special and other added tokens, by id
  std::vector<int32_t> longest;  // the ids of the longest other tokens, longest first
  bool can_cut = false;          // texts cut at the places of text_cut.h have the ids of the whole
  double mean_token_bytes = 0;   // of all tokens that have bytes, without the added ones
};
TokenizerFacts tokenizer_facts(const Tokenizer& tokenizer, size_t longest = 10);

// The bytes of a token; "" for an id of the vocabulary without one.
std::string bytes_of_id(const Tokenizer& tokenizer, int64_t id);

// How a text becomes tokens, step by step: for those who want to see it, not for speed.
class Explainer {
 public:
  struct Step {
    int64_t rank;                      // of the merge, from 0
    size_t at;                         // the symbol that is new
    std::vector<std::string> symbols;  // bytes of each, after the step
  };
  struct Piece {
    std::string text;
    std::vector<std::string> symbols;  // what merging starts with: bytes, or GPT-1's characters
    std::vector<Step> steps;           // empty where the tokenizer does not merge
    std::vector<int32_t> ids;
  };

  // The tokenizer must outlive the explainer.
  explicit Explainer(const Tokenizer& tokenizer);

  // Special tokens in the text are text. Without a known pattern there is one piece, the text. Throws Error
  // where encoding does.
  std::vector<Piece> explain(std::string_view text) const;

 private:
  std::vector<std::string> words_of(std::string_view text) const;
  Piece explain_piece(std::string_view text) const;

  const Tokenizer& tokenizer_;
  std::optional<SplitPattern> pattern_;
  bool gpt1_ = false;
  std::map<std::pair<std::string, std::string>, int64_t> ranks_;  // by the bytes of both sides
};

}  // namespace gpt
