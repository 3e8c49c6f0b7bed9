#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/mapped_file.h"
#include "text/tokenizer.h"

namespace gpt {

// A file of token ids. Ours is a header of 128 bytes (little-endian: "GPTTOKEN", u32 version 1, u32 bytes per
// id, u64 ids, u64 vocabulary size, u64 vocabulary hash, u64 XXH3 of the ids, u64 bytes of text, u64
// documents, i64 id in front of documents or -1, zeros, u64 XXH3 of all this) and the ids, two or four bytes
// each. llm.c's is 256 int32 (20240520, 1, ids; or 20240801, 7, ids) and ids of two (four) bytes:
// llm.c/dev/data/data_common.py.
enum class ShardFormat : uint8_t { gpt, llmc };

struct ShardInfo {
  ShardFormat format = ShardFormat::gpt;
  int bytes_per_id = 2;
  int64_t count = 0;  // ids
  // What llm.c's files do not say is 0.
  int64_t vocab_size = 0;
  uint64_t vocab_hash = 0, checksum = 0;
  int64_t text_bytes = 0, documents = 0, document_token = -1;
};

// A hash of the bytes of all tokens: equal for equal vocabularies, however they are stored.
uint64_t vocabulary_hash(const Tokenizer& tokenizer);

// A shard, mapped: opening it reads its header alone. Immutable, cheap to copy.
class TokenShard {
 public:
  // Throws Error when the header is damaged or does not fit the size of the file.
  explicit TokenShard(const std::string& path);
  // The same for bytes in memory that outlive the shard, 4-byte aligned.
  TokenShard(std::span<const std::byte> bytes, const std::string& name);

  const ShardInfo& info() const { return info_; }
  const std::string& name() const { return name_; }
  std::span<const std::byte> ids() const { return ids_; }
  FileStamp stamp() const { return file_ ? file_->stamp() : FileStamp{}; }  // of the file that is mapped
  uint64_t ids_offset() const;                                              // in the file
  // The ids, by their size.
  const uint16_t* ids16() const;
  const uint32_t* ids32() const;

  // Reads all ids. Throws Error when the checksum is wrong or an id is not in the vocabulary.
  void verify() const;
  // Throws Error unless the shard was made with this vocabulary. llm.c's shards do not say.
  void require_vocabulary(uint64_t hash, int64_t vocab_size) const;

 private:
  void read_header(std::span<const std::byte> bytes);
  void read_own_header(std::span<const std::byte> bytes);

  std::shared_ptr<const MappedFile> file_;
  std::string name_;
  ShardInfo info_;
  std::span<const std::byte> ids_;
};

// Whether a file begins like a shard; false when it cannot be read.
bool is_token_shard(const std::string& path);
// Writes a shard under a temporary name, so that a shard is whole or not there: `complete` ends it, `publish`
// gives it its name. What is not published is removed.
class ShardWriter {
 public:
  // What is known beforehand: format, bytes per id, vocabulary, document token. Throws Error for ids that the
  // format cannot hold.
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
