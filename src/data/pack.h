#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/token_data.h"
#include "text/tokenizer.h"

namespace gpt {

struct PackOptions {
  std::vector<std::string> files;  // input files: see find_text_files
  std::string field = "text";      // name of the JSON Lines field that holds the text
  std::string out;                 // output path: a folder for shard-00000.bin ..., or a single file *.bin
  ShardFormat format = ShardFormat::gpt;
  int64_t shard_tokens = 100'000'000;    // ids per shard; the last shard may have fewer
  int32_t document_token = -1;           // id inserted before every document; -1: no id is inserted
  size_t block_bytes = size_t{1} << 20;  // bytes of text that a thread encodes at a time
  bool restart = false;                  // ignore and remove the output of an earlier run
};

struct PackStats {
  int64_t documents = 0, text_bytes = 0, tokens = 0, shards = 0;
  int64_t empty = 0;                // empty documents skipped by this run
  int64_t shards_before = 0;        // shards of an earlier run that were verified and kept
  std::vector<std::string> mended;  // repaired problems, one sentence each
  std::string notes;                // messages about the text for the user, one per line; usually empty
  double seconds = 0;               // duration of this run in seconds

  double bytes_per_token() const;
};

struct PackProgress {
  double done, total;  // amount of input: bytes of the files, or ids in a merge
  const PackStats& stats;
};

// Encodes text files to token shards, in order, with all threads. Memory use does not depend on the file
// sizes. The shards do not depend on the number of threads. An output folder also gets tokenizer.json and
// pack.json.
//
// A pack into a folder can be interrupted at any moment and resumed by the same call, because shards are
// written atomically. A resumed pack verifies the existing shards by reading them. It rewrites missing
// shards, damaged shards, and shards whose text has changed (detected by the sizes and modification times of
// the files). It renames files that do not belong to the pack. It never removes or replaces files that `gpt
// data pack` did not write. After an error in the text, the same call keeps the shards whose text has not
// changed. Empty documents are skipped.
//
// Throws Error for text that cannot be encoded (naming the file and the line) and for a folder that holds a
// different pack. Throws invalid_argument for invalid options.
PackStats pack_tokens(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
                      const std::function<void(const PackProgress&)>& progress = {});

// The result of pack_tokens, estimated in advance.
struct PackForecast {
  int64_t file_bytes = 0;              // size of the input files on disk
  int64_t text_bytes = 0, tokens = 0;  // extrapolated from samples unless all text was read
  int64_t shards = 0;
  bool sampled = false;
  std::string target;  // a sentence about the existing output and what a pack would do with it
};
// Encodes samples of the files and inspects the output path, but writes nothing. Throws the errors of
// pack_tokens for the data that it reads.
PackForecast forecast_pack(const Tokenizer& tokenizer, const PackOptions& options);

// Returns the id of the special token with this name. Throws invalid_argument if there is none.
int32_t special_token_id(const Tokenizer& tokenizer, const std::string& name);

}  // namespace gpt
