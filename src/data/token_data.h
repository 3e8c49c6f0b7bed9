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

// The first `part` of `whole` decoded bytes as bytes of a text of text_bytes; 0 where nothing is decoded.
int64_t share_of_text(int64_t text_bytes, int64_t part, int64_t whole);

// The ids of a text, two bytes each while the vocabulary allows: kept here, mapped from shards, or parts of
// other data, one after the other. Remembers the bytes of each text and the bytes that each token decodes to,
// for bits per byte. Move-only.
class TokenData {
 public:
  explicit TokenData(const Tokenizer& tokenizer);
  TokenData(TokenData&&) = default;
  TokenData& operator=(TokenData&&) = default;

  // text_bytes: of the text that the ids encode; the bytes that they decode to where it is not known. Throws
  // Error when an id is not in the vocabulary.
  void append(std::span<const int32_t> ids, std::optional<int64_t> text_bytes = {});
  // The token in front of a document, which stands for no text from now on.
  void append_document_token(int32_t id);
  // Throws Error when the shard was made with another vocabulary. Its ids are checked as they are read. The
  // token in front of documents stands for no text from now on.
  void append(const TokenShard& shard);
  // Data of the same vocabulary, which must outlive this and not grow any more.
  void append(const TokenSpan& span);

  int64_t size() const { return segments_.empty() ? 0 : segments_.back().end; }
  int64_t vocab_size() const { return std::ssize(token_lengths_); }
  int32_t id(int64_t at) const {
    int32_t id;
    copy(at, 1, &id);
    return id;
  }
  // Copies `count` ids from `first` on to out[count]. Throws Error naming the shard where one is not in the
  // vocabulary.
  void copy(int64_t first, int64_t count, int32_t* out) const;
  // See TokenSpan::text_bytes.
  int64_t text_bytes(int64_t begin, int64_t end) const;
  // The bytes that a token decodes to, 0 for a document token.
  int32_t token_length(int32_t id) const { return token_lengths_[static_cast<size_t>(id)]; }

 private:
  struct Segment {
    int64_t begin, end;  // in this data
    const uint16_t* narrow;
    const uint32_t* wide;     // one of the two
    const TokenShard* shard;  // null: the ids are known to be good
  };
  // A text, in order: its end in this data and its bytes, negative where they are not known.
  struct Text {
    int64_t end, bytes;
  };
  void add_segment(const Segment& ids, int64_t count);
  int64_t decoded_bytes(int64_t begin, int64_t end) const;
  void copy_segment(const Segment& segment, int64_t first, int64_t count, int32_t* out) const;

  bool wide_;
  uint64_t vocab_hash_;
  bool growing_ = false;  // the last segment is the end of ids16_ or ids32_
  std::vector<std::unique_ptr<std::vector<uint16_t>>> ids16_;
  std::vector<std::unique_ptr<std::vector<uint32_t>>> ids32_;
  std::vector<std::unique_ptr<TokenShard>> shards_;
  std::vector<Segment> segments_;
  std::vector<Text> texts_;
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
  TokenSpan part(int64_t begin, int64_t end) const;  // ids [begin, end) of this

  // Copies `count` ids from `first` on to out[count].
  void copy(int64_t first, int64_t count, int32_t* out) const;
  // The bytes of text that `count` tokens from `first` on encode. Of a text of which only a part is meant: in
  // proportion to the bytes that its tokens decode to, which is exact for tokenizers that keep every byte. Of
  // tokens whose text is not known (shards of llm.c): the bytes that they decode to.
  int64_t text_bytes(int64_t first, int64_t count) const;
  int64_t text_bytes() const { return text_bytes(0, size()); }

 private:
  friend class TokenData;
  const TokenData* data_ = nullptr;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

// Appends a corpus encoded, its documents one after the other: rows of JSON lines behind the tokenizer's
// usual document token, if it has one, as `gpt data pack` puts it; texts with nothing between them. Errors of
// the tokenizer name the document.
void append_corpus(TokenData& data, const Corpus& corpus, const Tokenizer& tokenizer);
TokenData encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer);

struct TokenSplit {
  TokenSpan train;
  TokenSpan val;  // empty when val_fraction is 0
};

// The token that usually stands in front of documents: <|endoftext|>, <|bos|> or <|begin_of_text|>, whichever
// the tokenizer has first; -1 if none.
int32_t usual_document_token(const Tokenizer& tokenizer);

// Cuts at floor((1 - val_fraction) * n) tokens. Throws invalid_argument unless 0 <= val_fraction < 1.
TokenSplit split_tokens(const TokenData& data, double val_fraction);

// The ids of shards, mapped, one shard after the other. Throws Error as TokenData::append does.
TokenData map_shards(std::span<const TokenShard> shards, const Tokenizer& tokenizer);

// Throws Error unless a span can give windows of n_ctx tokens and the next one: at least n_ctx + 1
// tokens. `what` names the span, for example "the training text".
void require_context(const TokenSpan& tokens, int64_t n_ctx, const std::string& what);

}  // namespace gpt
