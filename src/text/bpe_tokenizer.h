#pragma once

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/split.h"
#include "text/tokenizer.h"

namespace gpt::detail {

struct BpeParts {
  std::vector<std::string> tokens;  // bytes by id; empty: none. Added ones count if bytes or merges give them
  std::vector<Bpe::Merge> merges;
  bool ranks = false;  // no merges are given: ids are ranks, as tiktoken has them
  std::vector<AddedToken> added;
  SplitPattern pattern = SplitPattern::gpt2;
  std::vector<SplitStep> steps;  // if there are any, text is split by them instead
  SpecialIds special;
  int32_t unknown = -1;        // of bytes that are no tokens; -1: they are left out
  bool nfc = false;            // text is brought into normalization form C first
  bool ignore_merges = false;  // a piece that is a token is that token, whatever merges would make of it
};

// Throws Error for contradictions between the parts.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts);

}  // namespace gpt::detail
