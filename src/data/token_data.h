#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "text/tokenizer.h"

namespace gpt {

// The ids of a text, two bytes each while the vocabulary allows. Remembers how many bytes of text each
// token stands for, so that bits per byte are exact over any range.
class TokenData {
 public:
  explicit TokenData(const Tokenizer& tokenizer);

  // Throws Error when an id is not in the vocabulary.
  void append(std::span<const int32_t> ids);

  int64_t size() const { return wide_ ? std::ssize(ids32_) : std::ssize(ids16_); }
  int64_t vocab_size() const { return std::ssize(token_lengths_); }
  int32_t id(int64_t at) const {
    return wide_ ? ids32_[static_cast<size_t>(at)] : ids16_[static_cast<size_t>(at)];
  }
  int32_t token_length(int32_t id) const { return token_lengths_[static_cast<size_t>(id)]; }

 private:
  bool wide_;
  std::vector<uint16_t> ids16_;
  std::vector<int32_t> ids32_;
  std::vector<int32_t> token_lengths_;
};

// A range of a TokenData, which must outlive it.
class TokenSpan {
 public:
  TokenSpan() = default;
  TokenSpan(const TokenData& data, int64_t begin, int64_t end);
  explicit TokenSpan(const TokenData& data) : TokenSpan(data, 0, data.size()) {}

  int64_t size() const { return end_ - begin_; }
  int64_t vocab_size() const { return data_ == nullptr ? 0 : data_->vocab_size(); }
  int32_t operator[](int64_t at) const { return data_->id(begin_ + at); }

  // Copies `count` ids from `first` on to out[count].
  void copy(int64_t first, int64_t count, int32_t* out) const;
  // The bytes of text that `count` tokens from `first` on stand for.
  int64_t text_bytes(int64_t first, int64_t count) const;
  int64_t text_bytes() const { return text_bytes(0, size()); }

 private:
  const TokenData* data_ = nullptr;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

// The whole corpus encoded, its documents one after the other. Errors of the tokenizer name the document.
TokenData encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer);

struct TokenSplit {
  TokenSpan train;
  TokenSpan val;  // empty when val_fraction is 0
};

// Cuts at floor((1 - val_fraction) * n) tokens. Throws UsageError unless 0 <= val_fraction < 1.
TokenSplit split_tokens(const TokenData& data, double val_fraction);

// Throws Error unless a span can give windows of n_ctx tokens and the next one: at least n_ctx + 1
// tokens. `what` names the span, for example "the training text".
void require_context(const TokenSpan& tokens, int64_t n_ctx, const std::string& what);

// Throws Error when the data's tokenizer has more tokens than a model's embedding has rows.
void require_vocab(const TokenSpan& tokens, int64_t model_vocab_size);

}  // namespace gpt
