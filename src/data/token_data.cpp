#include "data/token_data.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "base/ranges.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

// Largest vocabulary whose ids fit into two bytes.
constexpr int64_t kNarrowVocab = 65536;

// Rejects a corpus that cannot be encoded in memory. The check uses a lower bound for the number of tokens:
// every token is assumed to be as long as the longest token of the vocabulary.
void require_memory_to_encode(const Corpus& corpus, const TokenData& data) {
  int64_t longest = 1;
  for (int64_t id = 0; id < data.vocab_size(); ++id)
    longest = std::max<int64_t>(longest, data.token_length(static_cast<int32_t>(id)));
  const int64_t stored = data.vocab_size() > kNarrowVocab ? sizeof(uint32_t) : sizeof(uint16_t);
  int64_t largest = 0;
  for (const Document& document : corpus.documents)
    largest = std::max(largest, document.bytes);
  const int64_t encoded = static_cast<int64_t>(sizeof(int32_t)) * largest;  // encode returns int32 ids
  require_memory(corpus.name(corpus.documents.front()), (stored * corpus.bytes() + encoded) / longest);
}

}  // namespace

TokenData::TokenData(const Tokenizer& tokenizer)
    : wide_(tokenizer.vocab_size() > kNarrowVocab), vocab_hash_(vocabulary_hash(tokenizer)) {
  token_lengths_.reserve(static_cast<size_t>(tokenizer.vocab_size()));
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
    token_lengths_.push_back(static_cast<int32_t>(tokenizer.token_bytes(static_cast<int32_t>(id)).size()));
  }
}

void TokenData::add_segment(const Segment& ids, int64_t count) {
  if (count == 0) return;
  Segment segment = ids;
  segment.begin = size();
  segment.end = segment.begin + count;
  segments_.push_back(segment);
}

int64_t share_of_text(int64_t text_bytes, int64_t part, int64_t whole) {
  if (whole == 0) return 0;
  return static_cast<int64_t>(static_cast<__int128>(text_bytes) * part / whole);
}

void TokenData::append(std::span<const int32_t> ids, std::optional<int64_t> text_bytes) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      fail("token id {} is not in the vocabulary: expected 0 to {}", id, vocab_size() - 1);
    }
  }
  if (ids.empty()) return;
  if (!growing_) {
    add_segment({}, std::ssize(ids));
    wide_ ? ids32_.push_back(std::make_unique<std::vector<uint32_t>>())
          : ids16_.push_back(std::make_unique<std::vector<uint16_t>>());
    growing_ = true;
  } else {
    segments_.back().end += std::ssize(ids);
  }
  // A single insert reallocates at most once, so a large text needs no memory beyond its ids.
  if (wide_) {
    ids32_.back()->insert(ids32_.back()->end(), ids.begin(), ids.end());
    segments_.back().wide = ids32_.back()->data();
  } else {
    ids16_.back()->insert(ids16_.back()->end(), ids.begin(), ids.end());
    segments_.back().narrow = ids16_.back()->data();
  }
  texts_.push_back({size(), text_bytes.value_or(-1)});
}

void TokenData::append_document_token(int32_t id) {
  append(std::span(&id, 1), 0);
  token_lengths_[static_cast<size_t>(id)] = 0;
}

void TokenData::append(const TokenShard& shard) {
  shard.require_vocabulary(vocab_hash_, vocab_size());
  growing_ = false;
  shards_.push_back(std::make_unique<TokenShard>(shard));
  const bool narrow = shard.info().bytes_per_id == 2;
  add_segment({.narrow = narrow ? shard.ids16() : nullptr,
               .wide = narrow ? nullptr : shard.ids32(),
               .shard = shards_.back().get()},
              shard.info().count);
  if (shard.info().count > 0)
    texts_.push_back({size(), shard.info().format == ShardFormat::gpt ? shard.info().text_bytes : -1});
  if (shard.info().document_token >= 0) token_lengths_[static_cast<size_t>(shard.info().document_token)] = 0;
}

void TokenData::append(const TokenSpan& span) {
  growing_ = false;
  if (span.size() == 0) return;
  GPT_ASSERT(span.vocab_size() == vocab_size());
  token_lengths_ = span.data_->token_lengths_;
  for (const Segment& segment : span.data_->segments_) {
    const int64_t begin = std::max(segment.begin, span.begin_), end = std::min(segment.end, span.end_);
    if (begin >= end) continue;
    Segment part = segment;
    const int64_t skipped = begin - segment.begin;
    if (part.narrow != nullptr) part.narrow += skipped;
    if (part.wide != nullptr) part.wide += skipped;
    add_segment(part, end - begin);
  }
  const int64_t offset = size() - span.size();
  int64_t begin = span.begin_;
  for (const Text& text : span.data_->texts_) {
    const int64_t end = std::min(text.end, span.end_);
    if (begin >= end) continue;
    texts_.push_back({offset + end - span.begin_, span.data_->text_bytes(begin, end)});
    begin = end;
  }
}

int64_t TokenData::decoded_bytes(int64_t begin, int64_t end) const {
  int64_t bytes = 0;
  int32_t ids[1024] = {};
  while (begin < end) {
    const int64_t n = std::min<int64_t>(std::ssize(ids), end - begin);
    copy(begin, n, ids);
    bytes += sum_of(std::span(ids).first(static_cast<size_t>(n)),
                    [&](int32_t id) { return int64_t{token_length(id)}; });
    begin += n;
  }
  return bytes;
}

int64_t TokenData::text_bytes(int64_t begin, int64_t end) const {
  int64_t bytes = 0;
  auto text = std::ranges::upper_bound(texts_, begin, {}, &Text::end);
  while (begin < end) {
    const int64_t text_begin = text == texts_.begin() ? 0 : std::prev(text)->end;
    const int64_t stop = std::min(end, text->end);
    if (text->bytes < 0) {
      bytes += decoded_bytes(begin, stop);
    } else if (begin == text_begin && stop == text->end) {
      bytes += text->bytes;
    } else {
      const int64_t before = decoded_bytes(text_begin, begin), until = before + decoded_bytes(begin, stop);
      const int64_t whole = until + decoded_bytes(stop, text->end);
      bytes += share_of_text(text->bytes, until, whole) - share_of_text(text->bytes, before, whole);
    }
    begin = stop;
    ++text;
  }
  return bytes;
}

void TokenData::copy(int64_t first, int64_t count, int32_t* out) const {
  GPT_ASSERT(first >= 0 && count >= 0 && first + count <= size());
  auto segment = std::ranges::upper_bound(segments_, first, {}, &Segment::end);
  while (count > 0) {
    const int64_t n = std::min(count, segment->end - first);
    copy_segment(*segment, first - segment->begin, n, out);
    first += n;
    count -= n;
    out += n;
    ++segment;
  }
}

void TokenData::copy_segment(const Segment& segment, int64_t first, int64_t count, int32_t* out) const {
  if (segment.narrow != nullptr) {
    std::copy_n(segment.narrow + first, count, out);
  } else {
    std::transform(segment.wide + first, segment.wide + first + count, out,
                   [](uint32_t id) { return static_cast<int32_t>(std::min<uint32_t>(id, INT32_MAX)); });
  }
  if (segment.shard == nullptr) return;
  const auto bad = std::find_if(out, out + count, [this](int32_t id) { return id >= vocab_size(); });
  if (bad == out + count) return;
  fail(
      "{} has the token id {}, which is not in the vocabulary: expected 0 to {}; use the tokenizer of the "
      "shard",
      segment.shard->name(), *bad, vocab_size() - 1);
}

TokenSpan::TokenSpan(const TokenData& data, int64_t begin, int64_t end)
    : data_(&data), begin_(begin), end_(end) {
  GPT_ASSERT(0 <= begin && begin <= end && end <= data.size());
}

TokenSpan TokenSpan::part(int64_t begin, int64_t end) const {
  GPT_ASSERT(0 <= begin && begin <= end && end <= size());
  return {*data_, begin_ + begin, begin_ + end};
}

void TokenSpan::copy(int64_t first, int64_t count, int32_t* out) const {
  GPT_ASSERT(first >= 0 && count >= 0 && first + count <= size());
  if (count > 0) data_->copy(begin_ + first, count, out);
}

int64_t TokenSpan::text_bytes(int64_t first, int64_t count) const {
  GPT_ASSERT(first >= 0 && count >= 0 && first + count <= size());
  return count == 0 ? 0 : data_->text_bytes(begin_ + first, begin_ + first + count);
}

TokenData map_shards(std::span<const TokenShard> shards, const Tokenizer& tokenizer) {
  TokenData data(tokenizer);
  for (const TokenShard& shard : shards)
    data.append(shard);
  return data;
}

void append_corpus(TokenData& data, const Corpus& corpus, const Tokenizer& tokenizer) {
  if (corpus.documents.empty()) return;
  require_memory_to_encode(corpus, data);
  const int32_t between = usual_document_token(tokenizer);
  for (const Document& document : corpus.documents) {
    if (document.line > 0 && between >= 0) data.append_document_token(between);
    try {
      data.append(tokenizer.encode(corpus.content(document)), document.bytes);
    } catch (const Error& error) {
      fail_because(error, "{}: {}", corpus.name(document), error.what());
    }
  }
}

TokenData encode_corpus(const Corpus& corpus, const Tokenizer& tokenizer) {
  TokenData data(tokenizer);
  append_corpus(data, corpus, tokenizer);
  return data;
}

int32_t usual_document_token(const Tokenizer& tokenizer) {
  const auto added = tokenizer_facts(tokenizer, 0).added;
  for (const char* name : {"<|endoftext|>", "<|bos|>", "<|begin_of_text|>"}) {
    for (const auto& token : added) {
      if (token.text == name) return token.id;
    }
  }
  return -1;
}

TokenSplit split_tokens(const TokenData& data, double val_fraction) {
  if (!(val_fraction >= 0 && val_fraction < 1)) {
    fail_usage("val_fraction: expected at least 0 and less than 1, found {}", val_fraction);
  }
  const auto n = static_cast<double>(data.size());
  const double product = (1 - val_fraction) * n;
  // In floating point, 1 - 0.9 is slightly less than 0.1. A product within rounding error of an integer is
  // therefore treated as that integer.
  const double nearest = std::round(product);
  const double cut = std::abs(product - nearest) <= 4 * DBL_EPSILON * n ? nearest : std::floor(product);
  const auto at = static_cast<int64_t>(cut);
  return {TokenSpan(data, 0, at), TokenSpan(data, at, data.size())};
}

void require_context(const TokenSpan& tokens, int64_t n_ctx, const std::string& what) {
  if (n_ctx < 1) fail_usage("n_ctx: expected at least 1, found {}", n_ctx);
  if (n_ctx == 1 && tokens.size() <= 1)
    fail("{} is too short: expected at least 2 tokens, found {}", what, tokens.size());
  if (tokens.size() <= n_ctx) {
    fail(
        "{} is too short: expected at least n_ctx + 1 = {} tokens, found {}; use a smaller `n_ctx` or more "
        "text",
        what, n_ctx + 1, tokens.size());
  }
}

}  // namespace gpt
