#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "text/bpe.h"

namespace gpt::detail {

// Limit on token ids. Reserved ids leave gaps in a vocabulary, but a file with a few huge ids must not cause
// an allocation for billions of tokens.
inline constexpr int64_t kMaxVocab = 4 << 20;

// Maps the tokens of a vocabulary, as spelled in a file, to their ids. Used to look up the tokens of merges.
class TokenIndex {
 public:
  explicit TokenIndex(const std::string& name)
      : name_(name) {}  // file name for messages; must outlive this
                        // object

  // Returns false if the token already exists.
  bool add(std::string token, int32_t id) { return ids_.emplace(std::move(token), id).second; }
  // Returns -1 if there is no such token.
  int32_t find(const std::string& token) const;
  // Returns the merge of two tokens. Throws Error, with the index `at` of the merge, if one of the two tokens
  // or the merged token is not in the vocabulary.
  Bpe::Merge merge(const std::string& left, const std::string& right, size_t at) const;
  // Does the same for a line "left right".
  Bpe::Merge merge(std::string_view line, size_t at) const;

 private:
  int32_t id_of(const std::string& token, size_t merge) const;

  const std::string& name_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace gpt::detail
