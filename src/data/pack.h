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
  std::vector<std::string> files;  // see find_text_files
  std::string field = "text";      // of the text in JSON lines
  std::string out;                 // a folder for shard-00000.bin ..., or one file *.bin
  ShardFormat format = ShardFormat::gpt;
  int64_t shard_tokens = 100'000'000;    // ids per shard, the last one excepted
  int32_t document_token = -1;           // stands in front of every document; -1: nothing does
  size_t block_bytes = size_t{1} << 20;  // of text that a thread encodes at a time
  bool restart = false;                  // forget and remove what an earlier run left
};

struct PackStats {
  int64_t documents = 0, text_bytes = 0, tokens = 0, shards = 0;
  int64_t empty = 0;                // documents without text, left out by this run
  int64_t shards_before = 0;        // of these, written by an earlier run and found good
  std::vector<std::string> mended;  // what was wrong and is no more, a sentence each
  std::string notes;                // of the text that was read, for people; lines, mostly none
  double seconds = 0;               // of this run

  double bytes_per_token() const;
};

struct PackProgress {
  double done, total;  // bytes of the files
  const PackStats& stats;
};

// Encodes text files to token shards, in order, with all threads; memory does not depend on the files. The
// shards are the same for any number of threads. A folder gets tokenizer.json and pack.json too, and can be
// gone on with after a kill at any moment: a shard is whole or not there. Shards that are there already are
// read: what is missing or damaged is written again, as is what was made of text that changed since (told by
// sizes and times of the files); a file that does not belong to them gets another name, and what no pack
// wrote is never removed or replaced. After an error in the text the same call goes on with the shards whose
// text has not changed. Empty documents are left out. Throws Error for text that cannot be encoded (naming
// file and line), for a folder that holds a pack of something else, and invalid_argument for bad options.
PackStats pack_tokens(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
                      const std::function<void(const PackProgress&)>& progress = {});

// What pack_tokens would do.
struct PackForecast {
  int64_t file_bytes = 0;              // of the files, as they are on disk
  int64_t text_bytes = 0, tokens = 0;  // estimated from samples, where not all was read
  int64_t shards = 0;
  bool sampled = false;
  std::string target;  // a sentence on what there is and what becomes of it
};
// Reads samples of the files and looks at the target; writes nothing. Throws as pack_tokens does for what it
// reads.
PackForecast forecast_pack(const Tokenizer& tokenizer, const PackOptions& options);

// The special token of this name. Throws invalid_argument if there is none.
int32_t special_token_id(const Tokenizer& tokenizer, const std::string& name);

}  // namespace gpt
