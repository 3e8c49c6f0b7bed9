#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/pack.h"
#include "data/pack_share.h"
#include "data/text_blocks.h"
#include "data/token_shard.h"

namespace gpt {

// A block of text as shards hold it.
struct EncodedBlock {
  TextPosition begin;
  uint64_t end = 0;    // the offset behind it
  int64_t number = 0;  // in its file
  bool last = false;   // of its file
  std::vector<int32_t> ids;
  std::vector<size_t> documents;  // which ids they begin with
  int64_t text_bytes = 0;         // of the text that the ids encode
  int64_t empty = 0;              // rows without text
  TextFacts facts;
};

// Where packing has its blocks from.
class EncodedBlocks {
 public:
  virtual ~EncodedBlocks() = default;
  virtual bool next(std::vector<EncodedBlock>& blocks) = 0;  // some, in order; false at the end
  // Goes on at a place where a block began.
  virtual void skip_to(const TextPosition& position) = 0;
  virtual double done() const = 0;  // of the total, any unit
  virtual double total() const = 0;
};

// The ids of text as shards hold them. What it is made of must outlive it.
class BlockEncoder {
 public:
  BlockEncoder(const Tokenizer& tokenizer, const PackOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  // Throws Error naming the file and the line for text that cannot be encoded.
  void encode(const TextBlock& block, const std::string& path, EncodedBlock& out) const;

 private:
  void append(std::string_view text, bool begins, EncodedBlock& out) const;

  const Tokenizer& tokenizer_;
  const PackOptions& options_;
};

// Text, read and encoded by all threads; of a share the blocks of a task alone.
class TextSource final : public EncodedBlocks {
 public:
  TextSource(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
             const TaskShare* share = nullptr);

  bool next(std::vector<EncodedBlock>& blocks) override;
  void skip_to(const TextPosition& position) override { blocks_.skip_to(position); }
  double done() const override { return static_cast<double>(blocks_.bytes_done()); }
  double total() const override { return static_cast<double>(blocks_.bytes_total()); }

 private:
  ThreadPool& pool_;
  BlockEncoder encoder_;
  SharedBlocks blocks_;
  const std::vector<std::string>& files_;
  std::vector<TextBlock> texts_;
  std::vector<int64_t> numbers_;
};

TextBlockOptions block_options(const Tokenizer& tokenizer, const PackOptions& options);
// The bytes that each id decodes to, 0 for the document token.
std::vector<int32_t> text_lengths(const Tokenizer& tokenizer, const PackOptions& options);
// Of shards of that format.
ShardInfo shard_info(const Tokenizer& tokenizer, const PackOptions& options, ShardFormat format);

// Throws invalid_argument for what no pack can be made with.
void check_pack_options(const Tokenizer& tokenizer, const PackOptions& options);

// Cuts blocks to shards, as pack_tokens does with text.
PackStats pack_blocks(const Tokenizer& tokenizer, const PackOptions& options, EncodedBlocks& source,
                      const std::function<void(const PackProgress&)>& progress);

}  // namespace gpt
