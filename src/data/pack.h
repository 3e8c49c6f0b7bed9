#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/token_shard.h"
#include "text/tokenizer.h"

namespace gpt {

struct PackOptions {
  std::vector<std::string> files;  // see find_text_files
  std::string field = "text";      // of the text in JSON lines
  std::string out;                 // a folder for shard-00000.bin ..., or one file *.bin
  ShardFormat format = ShardFormat::gpt;
  int64_t shard_tokens = 100'000'000;  // ids per shard, the last one excepted
  int32_t document_token = -1;         // stands in front of every document; -1: nothing does
  bool restart = false;                // forget what an earlier run left
};

struct PackStats {
  int64_t documents = 0, text_bytes = 0, tokens = 0, shards = 0;
  int64_t shards_before = 0;  // of these, written by an earlier run
  double seconds = 0;         // of this run

  double bytes_per_token() const;
};

struct PackProgress {
  double done, total;  // bytes of the files
  const PackStats& stats;
};

// Encodes text files to token shards, in order, with all threads; memory does not depend on the files. The
// shards are the same for any number of threads. A folder gets tokenizer.json too, and can be gone on with
// after a kill at any moment: a shard is whole or not there. Empty documents are left out. Throws Error for
// text that cannot be encoded (naming file and line), for a folder that holds a pack of something else, and
// UsageError for bad options.
PackStats pack_tokens(const Tokenizer& tokenizer, const PackOptions& options, ThreadPool& pool,
                      const std::function<void(const PackProgress&)>& progress = {});

// The token that usually stands in front of documents: <|endoftext|>, <|bos|> or <|begin_of_text|>, whichever
// the tokenizer has first; -1 if none.
int32_t usual_document_token(const Tokenizer& tokenizer);

// The special token of this name. Throws UsageError if there is none.
int32_t special_token_id(const Tokenizer& tokenizer, const std::string& name);

}  // namespace gpt
