#include "data/token_data.h"

#include <cfloat>
#include <cmath>

#include "base/error.h"

namespace gpt {
namespace {

// Beyond this an id needs more than two bytes.
constexpr int64_t kNarrowVocab = 65536;

}  // namespace

TokenData::TokenData(const Tokenizer& tokenizer) : wide_(tokenizer.vocab_size() > kNarrowVocab) {
  token_lengths_.reserve(static_cast<size_t>(tokenizer.vocab_size()));
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    token_lengths_.push_back(static_cast<int32_t>(tokenizer.token_bytes(static_cast<int32_t>(id)).size()));
  }
}

void TokenData::append(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      fail("token id {} is not in the vocabulary: expected 0 to {}", id, vocab_size() - 1);
    }
  }
  if (wide_) {
    ids32_.insert(ids32_.end(), ids.begin(), ids.end());
  } else {
    ids16_.reserve(ids16_.size() + ids.size());
    for (const int32_t id : ids)
      ids16_.push_back(static_cast<uint16_t>(id));
  }
}

TokenSpan::TokenSpan(const TokenData& data, int64_t begin, int64_t end)
    : data_(&data), begin_(begin), end_(end) {
  GPT_ASSERT(0 <= begin && begin <= end && end <= data.size());
}

void TokenSpan::copy(int64_t first, int64_t count, int32_t* out) const {
  GPT_ASSERT(first >= 0 && count >= 0 && first + count <= size());
  for (int64_t i = 0; i < count; ++i)
    out[i] = (*this)[first + i];
}

int64_t TokenSpan::text_bytes(int64_t first, int64_t count) const {
  GPT_ASSERT(first >= 0 && count >= 0 && first + count <= size());
  int64_t bytes = 0;
  for (int64_t i = 0; i < count; ++i)
    bytes += data_->token_length((*this)[first + i]);
  return bytes;
}

TokenData encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer) {
  TokenData data(tokenizer);
  for (const Document& document : corpus.documents) {
    try {
      data.append(tokenizer.encode(corpus.content(document)));
    } catch (const Error& error) {
      fail("{}: {}", document.path, error.what());
    }
  }
  return data;
}

TokenSplit split_tokens(const TokenData& data, double val_fraction) {
  if (!(val_fraction >= 0 && val_fraction < 1)) {
    fail_usage("val_fraction: expected at least 0 and less than 1, found {}", val_fraction);
  }
  const auto n = static_cast<double>(data.size());
  const double product = (1 - val_fraction) * n;
  // 1 - 0.9 is a little less than 0.1: a product within rounding of an integer is that integer.
  const double nearest = std::round(product);
  const double cut = std::abs(product - nearest) <= 4 * DBL_EPSILON * n ? nearest : std::floor(product);
  const auto at = static_cast<int64_t>(cut);
  return {TokenSpan(data, 0, at), TokenSpan(data, at, data.size())};
}

void require_context(const TokenSpan& tokens, int64_t n_ctx, const std::string& what) {
  if (n_ctx < 1) fail_usage("n_ctx: expected at least 1, found {}", n_ctx);
  if (tokens.size() <= n_ctx) {
    fail(
        "{} is too short: expected at least n_ctx + 1 = {} tokens, found {}; use a smaller --n-ctx or more "
        "text",
        what, n_ctx + 1, tokens.size());
  }
}

void require_vocab(const TokenSpan& tokens, int64_t model_vocab_size) {
  if (tokens.vocab_size() > model_vocab_size) {
    fail(
        "the tokenizer does not fit the model: expected at most vocab_size = {} tokens, found {}; use the "
        "model's "
        "own tokenizer or set --vocab-size {}",
        model_vocab_size, tokens.vocab_size(), tokens.vocab_size());
  }
}

}  // namespace gpt
