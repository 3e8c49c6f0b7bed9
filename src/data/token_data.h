#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/token_shard.h"
#include "text/tokenizer.h"

namespace gpt {

class TokenSpan;

// Returns text_bytes * part / whole, rounded down, or 0 if `whole` is 0. `part` and `whole` are numbers of
// decoded bytes.
int64_t share_of_text(int64_t text_bytes, int64_t part, int64_t whole);

// The token ids of texts, stored in two bytes each if the vocabulary allows it. The ids are a sequence of
// segments: ids in memory, memory-mapped shards, and parts of other TokenData. The class also stores the size
// of each text and the decoded length of each token, both in bytes. The metric bits per byte is computed from
// them. Move-only.
class TokenData {
 public:
  explicit TokenData(const Tokenizer& tokenizer);
  TokenData(TokenData&&) = default;
  TokenData& operator=(TokenData&&) = default;

  // Appends ids. `text_bytes` is the size of the text that the ids encode. Without it, the size of the text
  // is the total decoded length of the ids. Throws Error when an id is not in the vocabulary.
  void append(std::span<const int32_t> ids, std::optional<int64_t> text_bytes = {});
  // Appends the token that precedes a document. From now on, this token counts as 0 bytes of text.
  void append_document_token(int32_t id);
  // Appends a memory-mapped shard. Throws Error when the shard was made with a different vocabulary. The ids
  // of the shard are checked when they are read. From now on, the shard's document token counts as 0 bytes of
  // text.
  void append(const TokenShard& shard);
  // Appends a part of other data with the same vocabulary. The other data must outlive this object and must
  // not grow any more.
  void append(const TokenSpan& span);

  int64_t size() const { return segments_.empty() ? 0 : segments_.back().end; }
  int64_t vocab_size() const { return std::ssize(token_lengths_); }
  int32_t id(int64_t at) const {
    int32_t id;
    copy(at, 1, &id);
    return id;
  }
  // Copies `count` ids, starting at `first`, to out[count]. Throws Error naming the shard if an id is not in
  // the vocabulary.
  void copy(int64_t first, int64_t count, int32_t* out) const;
  // See TokenSpan::text_bytes.
  int64_t text_bytes(int64_t begin, int64_t end) const;
  // Returns the number of bytes that a token decodes to, or 0 for a document token.
  int32_t token_length(int32_t id) const { return token_lengths_[static_cast<size_t>(id)]; }

 private:
  struct Segment {
    int64_t begin, end;  // range of ids in this data
    const uint16_t* narrow;
    const uint32_t* wide;     // exactly one of narrow and wide is set
    const TokenShard* shard;  // null if the ids are known to be valid
  };
  // The end of a text in this data, and the size of the text in bytes (negative if unknown). Texts are in
  // order.
  struct Text {
    int64_t end, bytes;
  };
  void add_segment(const Segment& ids, int64_t count);
  int64_t decoded_bytes(int64_t begin, int64_t end) const;
  void copy_segment(const Segment& segment, int64_t first, int64_t count, int32_t* out) const;

  bool wide_;
  uint64_t vocab_hash_;
  bool growing_ = false;  // the last segment is stored at the end of ids16_ or ids32_ and can grow
  std::vector<std::unique_ptr<std::vector<uint16_t>>> ids16_;
  std::vector<std::unique_ptr<std::vector<uint32_t>>> ids32_;
  std::vector<std::unique_ptr<TokenShard>> shards_;
  std::vector<Segment> segments_;
  std::vector<Text> texts_;
  std::vector<int32_t> token_lengths_;
};

// A range of ids in a TokenData. The TokenData must outlive the span.
class TokenSpan {
 public:
  TokenSpan() = default;
  TokenSpan(const TokenData& data, int64_t begin, int64_t end);
  explicit TokenSpan(const TokenData& data) : TokenSpan(data, 0, data.size()) {}

  int64_t size() const { return end_ - begin_; }
  int64_t vocab_size() const { return data_ == nullptr ? 0 : data_->vocab_size(); }
  int32_t operator[](int64_t at) const { return data_->id(begin_ + at); }
  TokenSpan part(int64_t begin, int64_t end) const;  // ids [begin, end) of this span

  // Copies `count` ids, starting at `first`, to out[count].
  void copy(int64_t first, int64_t count, int32_t* out) const;
  // Returns the number of text bytes that `count` tokens encode, starting at `first`. If the range covers
  // only a part of a text, the size of this part is computed in proportion to the decoded length of the
  // tokens. The result is exact for tokenizers that keep every byte. Shards of llm.c do not store the size of
  // the text. For tokens of these shards, returns the decoded length.
  int64_t text_bytes(int64_t first, int64_t count) const;
  int64_t text_bytes() const { return text_bytes(0, size()); }

 private:
  friend class TokenData;
  const TokenData* data_ = nullptr;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

// Encodes a corpus and appends the ids, document by document. Like `gpt data pack`, inserts the usual
// document token of the tokenizer, if it has one, before each row of JSON Lines. Inserts nothing between
// other texts. If the tokenizer throws Error, the message names the document.
void append_corpus(TokenData& data, const Corpus& corpus, const Tokenizer& tokenizer);
TokenData encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer);

struct TokenSplit {
  TokenSpan train;
  TokenSpan val;  // empty when val_fraction is 0
};

// Returns the token that usually precedes documents. This is the first of <|endoftext|>, <|bos|> and
// <|begin_of_text|> that the tokenizer contains. Returns -1 if the tokenizer contains none of these tokens.
int32_t usual_document_token(const Tokenizer& tokenizer);

// Splits the data at token floor((1 - val_fraction) * n). Throws invalid_argument unless 0 <= val_fraction <
// 1.
TokenSplit split_tokens(const TokenData& data, double val_fraction);

// Returns the ids of memory-mapped shards, one shard after the other. Throws the errors of TokenData::append.
TokenData map_shards(std::span<const TokenShard> shards, const Tokenizer& tokenizer);

// Throws Error unless the span has at least n_ctx + 1 tokens, which is one window of n_ctx tokens and its
// targets. `what` is the name of the span in the error message, for example "the training text".
void require_context(const TokenSpan& tokens, int64_t n_ctx, const std::string& what);

}  // namespace gpt
