#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/pack_state.h"
#include "data/token_shard.h"

namespace gpt {

// Token shards that belong together, mapped, in order.
struct ShardSet {
  std::vector<TokenShard> shards;
  std::vector<std::optional<uint64_t>> checksums;  // of the ids of each, where they are known
  std::string notes;                               // for people: what is passed over, lines; mostly empty

  int64_t tokens() const;
};

// The shards that a path stands for: a shard itself, or all of a folder; none if it is something else.
// Headers are read, ids are not. A folder that `gpt data pack` wrote must be what its pack.json says, another
// have equal kinds of shards without a gap in their numbers. Throws Error naming the first file that is not
// so, what was expected and found, and what to do.
ShardSet open_shard_set(const std::string& path);

// Whether a path is a token shard or a folder with one, damaged or not.
bool holds_token_shards(const std::string& path);

// Something wrong with a packed folder.
inline constexpr int64_t kNoShard = -1;        // a file that does not belong to it; without a path: pack.json
inline constexpr int64_t kTokenizerFile = -2;  // its tokenizer.json
struct ShardProblem {
  int64_t shard;  // or one of these
  std::string path;
  std::string what;  // a sentence that begins with the path
};
// All that is wrong with a folder's shards and tokenizer, beside what its pack.json says. `read_ids`: their
// checksums too.
std::vector<ShardProblem> shard_problems(const std::string& folder, const PackState& state, bool read_ids);

// What is wrong with the ids of a shard; "" if nothing is. Reads all of them.
std::string damaged_ids(const TokenShard& shard, std::optional<uint64_t> checksum);

}  // namespace gpt
