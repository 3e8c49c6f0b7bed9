#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace gpt {

// File formats for token ids. All values are little-endian.
//
// gpt: The file has a header of 128 bytes, followed by ids of two or four bytes each. The header consists of
// "GPTTOKEN", u32 version 1, u32 bytes per id, u64 number of ids, u64 vocabulary size, u64 vocabulary hash,
// u64 XXH3 of the ids, u64 bytes of text, u64 number of documents, i64 id of the document token or -1, zeros,
// and u64 XXH3 of the preceding header.
//
// llmc: The file has a header of 256 int32, followed by the ids. The header of a file with 2-byte ids begins
// with 20240520, 1 and the number of ids. The header of a file with 4-byte ids begins with 20240801, 7 and
// the number of ids. See llm.c/dev/data/data_common.py.
enum class ShardFormat : uint8_t { gpt, llmc };

struct ShardInfo {
  ShardFormat format = ShardFormat::gpt;
  int bytes_per_id = 2;
  int64_t count = 0;  // number of ids
  // Files of llm.c do not have the following fields. For such files, the fields keep their defaults.
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0, checksum = 0;
  int64_t text_bytes = 0, documents = 0, document_token = -1;
};

// Returns a hash of the bytes of all tokens. Equal vocabularies have equal hashes, regardless of the file
// format.
uint64_t vocabulary_hash(const Tokenizer& tokenizer);

// A memory-mapped token shard. Opening a shard only reads its header. Immutable and cheap to copy.
class TokenShard {
 public:
  // Throws Error when the header is damaged or does not match the size of the file.
  explicit TokenShard(const std::string& path);
  // Opens a shard in memory. The bytes must be 4-byte aligned and must outlive the shard.
  TokenShard(std::span<const std::byte> bytes, const std::string& name);

  const ShardInfo& info() const { return info_; }
  const std::string& name() const { return name_; }
  std::span<const std::byte> ids() const { return ids_; }
  // Returns the state of the file when it was mapped.
  FileStamp stamp() const { return file_ ? file_->stamp() : FileStamp{}; }
  uint64_t ids_offset() const;  // offset of the ids in the file
  // Return the ids as an array. Only the function that matches info().bytes_per_id may be called.
  const uint16_t* ids16() const;
  const uint32_t* ids32() const;

  // Reads all ids. Throws Error when the checksum is wrong or an id is not in the vocabulary.
  void verify() const;
  // Throws Error unless the shard was made with this vocabulary. Accepts all shards of llm.c, which do not
  // record a vocabulary.
  void require_vocabulary(uint64_t hash, int64_t vocab_size) const;

 private:
  void read_header(std::span<const std::byte> bytes);
  void read_own_header(std::span<const std::byte> bytes);

  std::shared_ptr<const MappedFile> file_;
  std::string name_;
  ShardInfo info_;
  std::span<const std::byte> ids_;
};

// Returns true if the file begins with the magic bytes of a shard. Returns false if the file cannot be read.
bool is_token_shard(const std::string& path);
// Writes a shard atomically: the file has a temporary name until `complete` finishes it and `publish` renames
// it. The destructor removes a shard that was not published.
class ShardWriter {
 public:
  // `info` gives the format, the bytes per id, the vocabulary and the document token. `write` throws Error if
  // the format cannot hold the ids.
  ShardWriter(const std::string& path, const ShardInfo& info);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  void write(std::span<const int32_t> ids);
  void add_text(int64_t bytes, int64_t documents);
  ShardInfo complete();
  void publish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpt
