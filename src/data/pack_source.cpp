#include "data/pack_source.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/ranges.h"
#include "text/parallel_encode.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

constexpr int64_t kMinShardTokens = 1000;
constexpr int kBlocksPerThread = 4;

std::vector<std::string> files_of(const PackOptions& options, const TaskShare* share) {
  if (share == nullptr) return options.files;
  return transformed(share->files(), [&](int64_t i) { return options.files[static_cast<size_t>(i)]; });
}

}  // namespace

bool begins_before(const TextPosition& a, const TextPosition& b) {
  return std::pair(a.file, a.offset) < std::pair(b.file, b.offset);
}

void BlockEncoder::encode(const TextBlock& block, const std::string& path, EncodedBlock& out) const {
  out.facts = text_facts(block);
  if (block.json) {
    for_each_json_text(block, path, options_.field, [&](std::string_view text, int64_t) {
      text.empty() ? void(++out.empty) : append(text, true, out);
    });
    return;
  }
  if (tokenizer_.kind() != "byte") require_utf8(block, path);
  try {
    append(block.text, block.begins_document, out);
  } catch (const Error& error) {
    fail("{}: from line {} on: {}", path, block.begin.line, error.what());
  }
}

void BlockEncoder::append(std::string_view text, bool begins, EncodedBlock& out) const {
  if (begins) out.documents.push_back(out.ids.size());
  if (begins && options_.document_token >= 0) out.ids.push_back(options_.document_token);
  const std::vector<int32_t> ids = tokenizer_.encode(text);
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
}

TextSource::TextSource(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
                       const TaskShare* share)
    : pool_(pool),
      share_(share),
      encoder_(tokenizer, options),
      blocks_(files_of(options, share), block_options(tokenizer, options)) {}

bool TextSource::next(std::vector<EncodedBlock>& blocks) {
  texts_.resize(static_cast<size_t>(pool_.size()) * kBlocksPerThread);
  numbers_.resize(texts_.size());
  size_t n = 0;
  while (n < texts_.size() && next_text(texts_[n], numbers_[n]))
    ++n;
  blocks.assign(n, {});
  detail::parallel_try(std::ssize(blocks), pool_, [&](size_t i, size_t) {
    encoder_.encode(texts_[i], blocks_.path(texts_[i]), blocks[i]);
  });
  for (size_t i = 0; i < n; ++i) {
    const TextBlock& text = texts_[i];
    EncodedBlock& block = blocks[i];
    block.begin = text.begin;
    if (share_ != nullptr) block.begin.file = share_->files()[static_cast<size_t>(text.begin.file)];
    block.end = text.begin.offset + text.mark_bytes + text.text.size();
    block.number = numbers_[i];
    block.last = text.ends_document;
  }
  return n > 0;
}

bool TextSource::next_text(TextBlock& block, int64_t& number) {
  while (!at_end_ && blocks_.next(block)) {
    number = number_ = block.begins_document ? 0 : number_ + 1;
    if (share_ == nullptr) return true;
    TextPosition begin = block.begin;
    begin.file = share_->files()[static_cast<size_t>(begin.file)];
    if (!begins_before(begin, from_) && share_->has(begin.file, number)) return true;
  }
  return false;
}

// The blocks of a share have numbers: its file is read from the beginning.
void TextSource::skip_to(const TextPosition& position) {
  if (share_ == nullptr) return blocks_.skip_to(position);
  from_ = position;
  const auto first = std::ranges::lower_bound(share_->files(), position.file);
  at_end_ = first == share_->files().end();
  if (!at_end_) blocks_.skip_to({.file = first - share_->files().begin()});
}

TextBlockOptions block_options(const Tokenizer& tokenizer, const PackOptions& options) {
  return {.block_bytes = options.block_bytes,
          .cut_documents = tokenizer_facts(tokenizer, 0).can_cut,
          .any_bytes = tokenizer.kind() == "byte"};
}

std::vector<int32_t> text_lengths(const Tokenizer& tokenizer, const PackOptions& options) {
  std::vector<int32_t> lengths;
  for (int64_t id = 0; id < tokenizer.vocab_size(); ++id)
    lengths.push_back(static_cast<int32_t>(bytes_of_id(tokenizer, id).size()));
  if (options.document_token >= 0) lengths[static_cast<size_t>(options.document_token)] = 0;
  return lengths;
}

ShardInfo shard_info(const Tokenizer& tokenizer, const PackOptions& options, ShardFormat format) {
  return {.format = format,
          .bytes_per_id = tokenizer.vocab_size() <= 65536 ? 2 : 4,
          .vocab_size = tokenizer.vocab_size(),
          .vocab_hash = vocabulary_hash(tokenizer),
          .document_token = options.document_token};
}

void check_pack_options(const Tokenizer& tokenizer, const PackOptions& options) {
  if (options.shard_tokens < kMinShardTokens)
    fail_usage("shard_tokens: expected at least {}, found {}", kMinShardTokens, options.shard_tokens);
  if (options.document_token >= tokenizer.vocab_size())
    fail_usage("document_token: expected at most {}, found {}", tokenizer.vocab_size() - 1,
               options.document_token);
}

}  // namespace gpt
