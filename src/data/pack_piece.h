#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "data/pack_source.h"
#include "data/pack_state.h"
#include "data/token_shard.h"

namespace gpt {

// Writes a piece, which is a sequence of whole text blocks encoded by a packing task. A piece consists of two
// files. The token shard shard-00000.bin stores the ids. The index shard-00000.blocks stores the blocks as
// little-endian 64-bit words. The index begins with "GPTBLOC2" and the XXH3 of the ids. The entry of a block
// consists of its file, number, offset, line, end, last flag, number of ids, number of documents and bytes of
// text, followed by the index of the first id of each document. The index ends with the XXH3 of all preceding
// words. A piece is published only when both files are complete.
class PieceWriter {
 public:
  PieceWriter(const std::string& folder, int64_t piece, const ShardInfo& info);

  void add(const EncodedBlock& block);
  void publish();
  const PackedShard& sum() const { return sum_; }  // the checksum is set by publish

 private:
  std::string index_path_;
  ShardWriter shard_;
  std::vector<uint64_t> index_;
  PackedShard sum_;
};

// Limits for the content of a piece: file indices are 0 to files - 1, and ids are below vocab_size.
struct PieceLimits {
  int64_t files, vocab_size;
};

// Reads a piece block by block. Errors name the damaged file.
class Piece {
 public:
  // Reads the shard header and the index. Throws Error if the header or the index does not match `expected`.
  Piece(const std::string& folder, int64_t piece, const PackedShard& expected, const PieceLimits& limits);
  // Reads the index from memory, which must outlive the piece.
  Piece(TokenShard shard, std::span<const std::byte> index, const std::string& name,
        const PackedShard& expected, const PieceLimits& limits);

  // Returns the next block without its ids, or null at the end.
  const EncodedBlock* head() const { return head_ ? &*head_ : nullptr; }
  void pass();  // skips the next block
  // Returns the next block with its ids. Throws Error when any ids of the piece are damaged.
  EncodedBlock take();
  void verify();  // reads all remaining blocks

 private:
  void check();
  void read_head();
  uint64_t word();
  [[noreturn]] void fail_damaged() const;

  TokenShard shard_;
  MappedFile file_;
  std::span<const std::byte> index_;
  std::string name_;  // name of the index in errors
  PackedShard expected_;
  PieceLimits limits_;
  size_t at_ = 0, end_ = 0;  // position and end in the index, in words
  int64_t ids_at_ = 0;
  bool checked_ = false;
  std::optional<EncodedBlock> head_;
  int64_t head_ids_ = 0;
};

std::string piece_index_name(int64_t piece);  // "shard-00000.blocks"

}  // namespace gpt
