#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text_blocks.h"
#include "data/token_shard.h"

namespace gpt {

inline constexpr const char* kPackStateFile = "pack.json";
inline constexpr const char* kPackUnfinishedFile = "pack.unfinished";
inline constexpr const char* kPackTokenizerFile = "tokenizer.json";
inline constexpr int64_t kMaxShards = 100'000;  // the digits in their names

// Where the text of a shard begins: ids of the block at `block` come before it.
struct PackPlace {
  TextPosition block;
  int64_t skip = 0;
};

// A shard as it was packed, or a piece of a task (pack_piece.h), which may have no tokens.
struct PackedShard {
  int64_t tokens = 0, text_bytes = 0, documents = 0;
  uint64_t checksum = 0;  // XXH3 of the ids
  PackPlace begin;
};

// What `gpt data pack` keeps in pack.json beside shards: what they were made of, and how they must look.
struct PackState {
  std::string inputs;  // JSON of the files and options that the shards depend on
  ShardFormat format = ShardFormat::gpt;
  int64_t shard_tokens = 0;
  PackPlace next;  // where the next shard begins
  int64_t documents = 0, text_bytes = 0, tokens = 0, shards = 0;
  std::vector<PackedShard> list;  // by shard; empty in what earlier versions wrote
  std::string tokenizer;          // the hash of tokenizer.json; "" in what earlier versions wrote
  bool tokenizer_found = false;   // that file was there already and is not the pack's to replace
  std::vector<int64_t> modified;  // when each file was last written, in nanoseconds; may be empty
  bool done = false;

  bool has_list() const { return std::ssize(list) == shards; }
};

std::string pack_file(const std::string& folder, const std::string& name);
std::string shard_file_name(int64_t shard);                        // "shard-00000.bin"
std::optional<int64_t> own_shard_number(const std::string& name);  // of a name like this; else nothing
std::string tokenizer_hash(std::string_view json);                 // as PackState has it

// Throws Error when the file is damaged or missing.
PackState read_pack_state(const std::string& folder);
// The same for the text of the file.
PackState parse_pack_state(std::string_view text, const std::string& path);
// That of a folder whose shards are complete; nothing where they are not, or the file does not tell.
std::optional<PackState> complete_pack(const std::string& folder);
void write_pack_state(const std::string& folder, const PackState& state);

}  // namespace gpt
