#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "text/bpe.h"

namespace gpt::detail {

// Upper limit for token ids. Vocabularies may have unused ids, but a file with a few huge ids must not cause
// an allocation for billions of tokens.
inline constexpr int64_t kMaxVocab = 4 << 20;

// Maps the tokens of a vocabulary file to their ids, in order to look up the tokens in merges.
class TokenIndex {
 public:
  // `name` is the file name for messages. It must outlive this object.
  explicit TokenIndex(const std::string& name) : name_(name) {}

  // Returns false if the token already exists.
  bool add(std::string token, int32_t id) { return ids_.emplace(std::move(token), id).second; }
  // Returns -1 if there is no such token.
  int32_t find(const std::string& token) const;
  // Returns the merge of two tokens. Throws Error if the two tokens or their concatenation are not in the
  // vocabulary. The error message contains the index `at` of the merge.
  Bpe::Merge merge(const std::string& left, const std::string& right, size_t at) const;
  // Returns the merge for a line of the form "left right".
  Bpe::Merge merge(std::string_view line, size_t at) const;

 private:
  int32_t id_of(const std::string& token, size_t merge) const;

  const std::string& name_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace gpt::detail
