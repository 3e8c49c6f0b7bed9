#include "data/token_hash.h"

#include <gtest/gtest.h>

namespace gpt {
namespace {

// Appends the ids in pieces or at once. The data is longer than one sample of the hash.
TokenData data_of(const std::vector<int32_t>& ids, const Tokenizer& tokenizer, size_t pieces = 1) {
  TokenData data(tokenizer);
  const size_t n = ids.size() / pieces;
  for (size_t i = 0; i < pieces; ++i)
    data.append(std::span(ids).subspan(i * n, i + 1 < pieces ? n : ids.size() - i * n));
  return data;
}

TEST(TokenHash, IsOfTheIdsAndTheirOrder) {
  const auto tokenizer = open_tokenizer("byte", {});
  std::vector<int32_t> ids(100'000);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(i * i % 251);
  const TokenData data = data_of(ids, *tokenizer), again = data_of(ids, *tokenizer, 7);
  const uint64_t hash = token_hash(TokenSpan(data));
  EXPECT_EQ(token_hash(TokenSpan(again)), hash);
  EXPECT_NE(token_hash(TokenSpan(data, 0, 99'999)), hash);
  for (const size_t at : {size_t{0}, size_t{65'535}, size_t{65'536}, ids.size() - 2}) {
    std::vector<int32_t> changed = ids;
    std::swap(changed[at], changed[at + 1]);
    const TokenData other = data_of(changed, *tokenizer);
    EXPECT_NE(token_hash(TokenSpan(other)), hash) << at;
  }
  EXPECT_EQ(token_hash(TokenSpan()), token_hash(TokenSpan(data, 5, 5)));
}

}  // namespace
}  // namespace gpt
