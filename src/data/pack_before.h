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

// What becomes of the tokenizer.json beside the shards.
struct TokenizerBefore {
  bool write = true;    // there is none, or another
  bool aside = false;   // the one that is there gets another name
  std::string problem;  // of the one that should be there, a sentence; mostly ""
  bool found = false;   // the one that is there stays, and gpt data pack did not write it
  std::string hash;     // of what will be there
};

// What an earlier run left in a folder, as far as it goes with the present options.
struct PackBefore {
  std::optional<PackState> state;  // of the same inputs; nothing: a new pack, or pack.json is lost
  bool compare = false;            // pack.json does not tell which shards are right: pack again and compare
  std::vector<ShardProblem> problems;
  std::vector<std::string> replaced;  // shards that go before a new pack begins
  TokenizerBefore tokenizer;
  std::string note;     // what is forgotten of it
  std::string written;  // a file that was written since it was packed and has the same size
};

// Reads what is in the folder options.out, all shards included. Throws Error for shards of something else,
// for a folder that is a model or a run, and for files that somebody else put there: shards are only ours
// where pack.json lists them, or where it is lost and their names are ours; so is a tokenizer.json.
PackBefore look_at_pack(const Tokenizer& tokenizer, const PackOptions& options, const std::string& inputs);

[[noreturn]] void fail_other_pack(const std::string& out);

}  // namespace gpt
