#pragma once

#include <cstdint>
#include <string>

#include "data/token_data.h"

namespace gpt {

struct RunData;

// Identifies the data of a run. When the run is resumed, its data must have the same identity. Hashes are
// strings of 16 hexadecimal digits, or "" if unknown.
struct DataIdentity {
  int64_t tokens = 0;                 // number of tokens in the training text
  std::string train, val, tokenizer;  // hashes; if the data is large, only samples are hashed (token_hash.h)
  // Hashes of all token ids. For texts, `ids` hashes the ids in memory. For shards, `ids` hashes the recorded
  // checksums. The same data can be packed into different shards. Therefore, `ids` hashes are only comparable
  // if the `sizes` hashes of the texts and shards are equal.
  std::string sizes, ids;
  std::string base;  // hash of the frozen weights if the run trains an adapter, otherwise ""
};

DataIdentity identity_of(const RunData& data);
std::string identity_of(const TokenSpan& tokens);  // the hash stored in `val`

// Returns a sentence that describes the difference between two data identities. The sentence names the
// earlier data first. Returns "" if there is no known difference.
std::string data_difference(const DataIdentity& before, const DataIdentity& now);

}  // namespace gpt
