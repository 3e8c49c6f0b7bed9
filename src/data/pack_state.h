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
inline constexpr int64_t kMaxShards = 100'000;  // shard names have five digits

// Position in the text where a shard begins. `block` is the position of the text block that contains the
// beginning. The first `skip` ids of this block are stored in the previous shards.
struct PackPlace {
  TextPosition block;
  int64_t skip = 0;
};

// Totals of one shard, or of one piece of a task (pack_piece.h). A piece may have no tokens.
struct PackedShard {
  int64_t tokens = 0, text_bytes = 0, documents = 0;
  uint64_t checksum = 0;  // XXH3 of the ids
  PackPlace begin;
};

// Content of pack.json, which `gpt data pack` writes next to the shards. It records the inputs of the pack
// and the expected totals of every shard.
struct PackState {
  std::string inputs;  // JSON of the files and options that determine the shards
  ShardFormat format = ShardFormat::gpt;
  int64_t shard_tokens = 0;
  PackPlace next;  // where the next shard begins
  int64_t documents = 0, text_bytes = 0, tokens = 0, shards = 0;
  std::vector<PackedShard> list;  // one entry per shard; empty in files of earlier versions
  std::string tokenizer;          // hash of tokenizer.json; "" in files of earlier versions
  bool tokenizer_found = false;   // tokenizer.json existed before the pack and must not be replaced
  std::vector<int64_t> modified;  // modification time of each input file in nanoseconds; may be empty
  bool done = false;

  bool has_list() const { return std::ssize(list) == shards; }
};

std::string pack_file(const std::string& folder, const std::string& name);
std::string shard_file_name(int64_t shard);  // returns "shard-00000.bin"
// Returns the number in the name of a shard, or nothing for other names.
std::optional<int64_t> own_shard_number(const std::string& name);
std::string tokenizer_hash(std::string_view json);  // hash as stored in PackState::tokenizer

// Reads pack.json. Throws Error when the file is damaged or missing.
PackState read_pack_state(const std::string& folder);
// Parses the text of a pack.json. Errors show `path` as the file name.
PackState parse_pack_state(std::string_view text, const std::string& path);
// Returns the state of a folder whose shards are complete. Returns nothing if the shards are not complete, or
// if pack.json is missing or damaged.
std::optional<PackState> complete_pack(const std::string& folder);
void write_pack_state(const std::string& folder, const PackState& state);

}  // namespace gpt
