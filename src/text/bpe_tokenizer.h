#pragma once

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/split.h"
#include "text/tokenizer.h"

namespace gpt::detail {

struct BpeParts {
  // The bytes of each token, by id. The entry of an unused id is empty. An added token has an entry only if
  // it is a byte or if a merge produces it.
  std::vector<std::string> tokens;
  std::vector<Bpe::Merge> merges;
  bool ranks = false;  // true if ids are ranks, as in tiktoken; `merges` is empty
  std::vector<AddedToken> added;
  SplitPattern pattern = SplitPattern::gpt2;
  std::vector<SplitStep> steps;  // used instead of `pattern` if not empty
  SpecialIds special;
  int32_t unknown = -1;        // replaces bytes that are not tokens; -1: such bytes are dropped
  bool nfc = false;            // true if text is first converted to normalization form C (NFC)
  bool ignore_merges = false;  // true if a piece that is a token is not merged
};

// Throws Error if the parts contradict each other.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts);

}  // namespace gpt::detail
