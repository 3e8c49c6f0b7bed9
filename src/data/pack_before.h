#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/pack_state.h"
#include "data/shard_set.h"

namespace gpt {

// What the shards of a pack depend on, as JSON: files with their sizes, and options. Throws Error naming a
// file that cannot be read.
std::string pack_inputs(const Tokenizer& tokenizer, const PackOptions& options);

// When each file was last written, in nanoseconds.
std::vector<int64_t> modified(const std::vector<std::string>& files);

// What an earlier run left in a folder, as far as it goes with the present options.
struct PackBefore {
  std::optional<PackState> state;  // of the same inputs; nothing: a new pack, or pack.json is lost
  bool compare = false;            // pack.json is lost or lists no shards, and something is wrong: pack again
  std::vector<ShardProblem> problems;
  bool begun = false;  // a run that has no shard yet, or one that it could not note any more
  std::string note;    // what is forgotten of it
};

// Reads what is in the folder options.out, all shards included. Throws Error for shards of something else.
PackBefore look_at_pack(const PackOptions& options, const std::string& inputs);

[[noreturn]] void fail_other_pack(const std::string& out);

}  // namespace gpt
