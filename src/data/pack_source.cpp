#include "data/pack_source.h"

#include "base/error.h"
#include "text/parallel_encode.h"
#include "text/tokenizer_facts.h"

namespace gpt {
namespace {

constexpr int64_t kMinShardTokens = 1000;
constexpr int kBlocksPerThread = 4;

}  // namespace

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
    fail_because(error, "{}: in the text from line {}: {}", path, block.begin.line, error.what());
  }
}

void BlockEncoder::append(std::string_view text, bool begins, EncodedBlock& out) const {
  if (begins) out.documents.push_back(out.ids.size());
  if (begins && options_.document_token >= 0) out.ids.push_back(options_.document_token);
  const std::vector<int32_t> ids = tokenizer_.encode(text);
  out.ids.insert(out.ids.end(), ids.begin(), ids.end());
  out.text_bytes += std::ssize(text);
}

TextSource::TextSource(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
                       const TaskShare* share)
    : pool_(pool),
      encoder_(tokenizer, options),
      blocks_(options.files, block_options(tokenizer, options), share),
      files_(options.files) {}

bool TextSource::next(std::vector<EncodedBlock>& blocks) {
  texts_.resize(static_cast<size_t>(pool_.size()) * kBlocksPerThread);
  numbers_.resize(texts_.size());
  size_t n = 0;
  while (n < texts_.size() && blocks_.next(texts_[n], numbers_[n]))
    ++n;
  blocks.assign(n, {});
  detail::parallel_try(std::ssize(blocks), pool_, [&](size_t i, size_t) {
    encoder_.encode(texts_[i], files_[static_cast<size_t>(texts_[i].begin.file)], blocks[i]);
  });
  for (size_t i = 0; i < n; ++i) {
    const TextBlock& text = texts_[i];
    EncodedBlock& block = blocks[i];
    block.begin = text.begin;
    block.end = text.begin.offset + text.mark_bytes + text.text.size();
    block.number = numbers_[i];
    block.last = text.ends_document;
  }
  return n > 0;
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
