#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace gpt {

class TokenSpan;

// Counts unknown tokens such as <unk>, which stand for characters outside the vocabulary.
class UnknownTokens {
 public:
  explicit UnknownTokens(const Tokenizer& tokenizer);

  void add(std::span<const int32_t> ids);
  void add(const TokenSpan& tokens);

  int64_t unknown() const { return unknown_; }
  // Returns 0 if the tokenizer has no unknown token, because nothing is counted then.
  int64_t tokens() const { return tokens_; }
  // Returns a note for the user with the number and the percentage of unknown tokens, or "" if there are
  // none.
  std::string note() const;

 private:
  int32_t id_;
  std::string name_;
  int64_t unknown_ = 0, tokens_ = 0;
};

}  // namespace gpt
