#pragma once

#include <cstdint>
#include <string>

#include "data/token_data.h"

namespace gpt {

struct RunData;

// Identifies the data of a run, which must be the same on resume. Hashes are strings of 16 hexadecimal
// digits, "" if unknown.
struct DataIdentity {
  int64_t tokens = 0;                 // tokens of the training text
  std::string train, val, tokenizer;  // hashes; for large data, hashes of samples of it (token_hash.h)
  // Hashes of all ids: of the ids in memory for texts, of the recorded checksums for shards. Two hashes are
  // comparable if texts and shards have equal `sizes`, since shards may have been packed again.
  std::string sizes, ids;
  std::string base;  // hash of the frozen weights, if the run trains an adapter
};

DataIdentity identity_of(const RunData& data);
std::string identity_of(const TokenSpan& tokens);  // the hash stored in `val`

// Describes the difference in a sentence that names the earlier data first; "" if there is no known
// difference.
std::string data_difference(const DataIdentity& before, const DataIdentity& now);

}  // namespace gpt
