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

// A block of text, encoded to the ids that shards store.
struct EncodedBlock {
  TextPosition begin;
  uint64_t end = 0;    // offset of the byte after the block
  int64_t number = 0;  // index of the block in its file
  bool last = false;   // true for the last block of a file
  std::vector<int32_t> ids;
  std::vector<size_t> documents;  // index in `ids` of each document's first id
  int64_t text_bytes = 0;         // bytes of text that the ids encode
  int64_t empty = 0;              // number of rows without text
  TextFacts facts;
};

// A source of encoded blocks for a pack.
class EncodedBlocks {
 public:
  virtual ~EncodedBlocks() = default;
  virtual bool next(std::vector<EncodedBlock>& blocks) = 0;  // reads the next blocks; false at the end
  // Continues at `position`, where a block must begin.
  virtual void skip_to(const TextPosition& position) = 0;
  virtual double done() const = 0;  // progress in the unit of total()
  virtual double total() const = 0;
};

// Encodes blocks of text to the ids that shards store. The tokenizer and the options must outlive the
// encoder.
class BlockEncoder {
 public:
  BlockEncoder(const Tokenizer& tokenizer, const PackOptions& options)
      : tokenizer_(tokenizer), options_(options) {}

  // Throws Error naming the file and the line if the text cannot be encoded.
  void encode(const TextBlock& block, const std::string& path, EncodedBlock& out) const;

 private:
  void append(std::string_view text, bool begins, EncodedBlock& out) const;

  const Tokenizer& tokenizer_;
  const PackOptions& options_;
};

// Reads text files and encodes them with all threads. If `share` is not null, reads only the blocks of this
// share.
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
// Returns the number of bytes that each id decodes to, and 0 for the document token.
std::vector<int32_t> text_lengths(const Tokenizer& tokenizer, const PackOptions& options);
// Returns the header fields that are equal in all shards of a pack.
ShardInfo shard_info(const Tokenizer& tokenizer, const PackOptions& options, ShardFormat format);

// Throws invalid_argument for options that no pack can use.
void check_pack_options(const Tokenizer& tokenizer, const PackOptions& options);

// Writes encoded blocks to shards. Used by pack_tokens and merge_tasks.
PackStats pack_blocks(const Tokenizer& tokenizer, const PackOptions& options, EncodedBlocks& source,
                      const std::function<void(const PackProgress&)>& progress);

}  // namespace gpt
