#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/pack_state.h"
#include "data/token_shard.h"

namespace gpt {

// Memory-mapped token shards that belong together, in order.
struct ShardSet {
  std::vector<TokenShard> shards;
  std::vector<std::optional<uint64_t>> checksums;  // checksum of each shard's ids, if known
  std::string notes;                               // names skipped files for the user; usually empty

  int64_t tokens() const;
};

// Opens the shards at a path: a single shard, or all shards of a folder. Returns an empty set for any other
// path. Reads the headers but not the ids. A folder that `gpt data pack` wrote must match its pack.json. The
// shards of any other folder must be of the same kind and be numbered without a gap. Throws Error for the
// first file that is wrong. The message contains the file name, the expected and the found value, and advice.
ShardSet open_shard_set(const std::string& path);

// Returns true if the path is a token shard or a folder that contains one. The shard may be damaged.
bool holds_token_shards(const std::string& path);

// Value of ShardProblem::shard if the problem does not concern a shard of the pack. If the path is not empty,
// it names the file. If the path is empty, the problem concerns pack.json.
inline constexpr int64_t kNoShard = -1;
inline constexpr int64_t kTokenizerFile = -2;  // value for the tokenizer.json of the pack
// A problem of a packed folder.
struct ShardProblem {
  int64_t shard;  // number of the shard, kNoShard or kTokenizerFile
  std::string path;
  std::string what;  // a sentence that begins with the path
};
// Compares the shards and the tokenizer of a folder with its pack.json and returns all differences. With
// `read_ids` the checksums are compared too.
std::vector<ShardProblem> shard_problems(const std::string& folder, const PackState& state, bool read_ids);

// Reads all ids of a shard. Returns a description of the damage, or "" if the ids are valid.
std::string damaged_ids(const TokenShard& shard, std::optional<uint64_t> checksum);

}  // namespace gpt
