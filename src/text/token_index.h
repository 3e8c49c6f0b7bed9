#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "text/bpe.h"

namespace gpt::detail {

// Vocabularies have holes where ids are reserved, but a few ids must not ask for memory for billions.
inline constexpr int64_t kMaxVocab = 4 << 20;

// The tokens of a vocabulary as a file spells them, for finding the ids that merges name.
class TokenIndex {
 public:
  explicit TokenIndex(const std::string& name) : name_(name) {}  // of the file, for messages; must stay

  // False if the token is already there.
  bool add(std::string token, int32_t id) { return ids_.emplace(std::move(token), id).second; }
  // -1: no such token.
  int32_t find(const std::string& token) const;
  // The merge of two tokens. Throws Error, naming merge `at`, where one of the three is not in the
  // vocabulary.
  Bpe::Merge merge(const std::string& left, const std::string& right, size_t at) const;
  // The same for "left right".
  Bpe::Merge merge(std::string_view line, size_t at) const;

 private:
  int32_t id_of(const std::string& token, size_t merge) const;

  const std::string& name_;
  std::unordered_map<std::string, int32_t> ids_;
};

}  // namespace gpt::detail
