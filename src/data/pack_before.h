#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/pack.h"
#include "data/pack_state.h"
#include "data/shard_set.h"

namespace gpt {

// Returns the inputs that determine the shards of a pack, as JSON: the options, and the files with their
// sizes. Throws Error naming a file that cannot be read.
std::string pack_inputs(const Tokenizer& tokenizer, const PackOptions& options);

// Returns the modification time of each file in nanoseconds.
std::vector<int64_t> modified(const std::vector<std::string>& files);

// Describes the tokenizer.json next to the shards and what a pack does with it.
struct TokenizerBefore {
  bool write = true;    // write tokenizer.json, because it is missing or different
  bool aside = false;   // rename the existing tokenizer.json
  std::string problem;  // what is wrong with the expected tokenizer.json, as a sentence; usually ""
  bool found = false;   // tokenizer.json is kept, although gpt data pack did not write it
  std::string hash;     // hash of tokenizer.json after the pack
};

// The output of an earlier run in a folder, and how a run with the current options can use it.
struct PackBefore {
  std::optional<PackState> state;  // state of a pack with the same inputs, if pack.json is valid
  // True if pack.json is not sufficient to find out which shards are valid. The text is then encoded again,
  // and the result is compared with the shards.
  bool compare = false;
  std::vector<ShardProblem> problems;
  std::vector<std::string> replaced;  // shards to remove before a new pack starts
  TokenizerBefore tokenizer;
  std::string note;     // message about discarded shards of the earlier run
  std::string written;  // a file that was modified since it was packed but has the same size
};

// Inspects the folder options.out and reads all its shards. Throws Error for shards of a different pack, for
// a folder that holds a model or a run, and for files that `gpt data pack` did not write. A shard belongs to
// the pack if pack.json lists it. If pack.json is lost, every token shard with a name such as shard-00000.bin
// belongs to the pack. The same rule decides whether a tokenizer.json belongs to the pack.
PackBefore look_at_pack(const Tokenizer& tokenizer, const PackOptions& options, const std::string& inputs);

[[noreturn]] void fail_other_pack(const std::string& out);

}  // namespace gpt
