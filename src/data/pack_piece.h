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

// What a task writes: whole blocks of text, one behind the other. The ids are a token shard, shard-00000.bin.
// Beside it, in shard-00000.blocks, are little-endian 64-bit words: "GPTBLOC2", the XXH3 of the ids, for
// every block file, number, offset, line, end, last, ids, documents, bytes of text and the ids that documents
// begin with, and the XXH3 of all this. A piece is whole or not there.
class PieceWriter {
 public:
  PieceWriter(const std::string& folder, int64_t piece, const ShardInfo& info);

  void add(const EncodedBlock& block);
  void publish();
  const PackedShard& sum() const { return sum_; }  // with the checksum once it is published

 private:
  std::string index_path_;
  ShardWriter shard_;
  std::vector<uint64_t> index_;
  PackedShard sum_;
};

// What the blocks of a piece may say: files 0 to files - 1, ids below vocab_size.
struct PieceLimits {
  int64_t files, vocab_size;
};

// A piece that is read block by block. Errors name the file that is not as it was written.
class Piece {
 public:
  // Reads headers and the index. Throws Error unless they are what was written.
  Piece(const std::string& folder, int64_t piece, const PackedShard& expected, const PieceLimits& limits);
  // The same for an index in memory that outlives the piece.
  Piece(TokenShard shard, std::span<const std::byte> index, const std::string& name,
        const PackedShard& expected, const PieceLimits& limits);

  const EncodedBlock* head() const { return head_ ? &*head_ : nullptr; }  // what comes next, without ids
  void pass();                                                            // leaves it out
  EncodedBlock take();  // with ids. Throws Error when any of the piece's are damaged
  void verify();        // reads everything

 private:
  void check();
  void read_head();
  uint64_t word();
  [[noreturn]] void fail_damaged() const;

  TokenShard shard_;
  MappedFile file_;
  std::span<const std::byte> index_;
  std::string name_;  // of the index
  PackedShard expected_;
  PieceLimits limits_;
  size_t at_ = 0, end_ = 0;  // words of the index
  int64_t ids_at_ = 0;
  bool checked_ = false;
  std::optional<EncodedBlock> head_;
  int64_t head_ids_ = 0;
};

std::string piece_index_name(int64_t piece);  // "shard-00000.blocks"

}  // namespace gpt
