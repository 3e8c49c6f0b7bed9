#pragma once

#include <cstdint>
#include <string>

#include "data/token_data.h"

namespace gpt {

struct RunData;

// What a run reads: the same on resume. Hashes are texts of 16 hexadecimal digits, "" where they are not
// known.
struct DataIdentity {
  int64_t tokens = 0;                 // of the training text
  std::string train, val, tokenizer;  // of large data, of pieces (token_hash.h)
  // Of all ids: of texts those in memory, of shards their checksums as recorded. Comparable where texts and
  // shards have equal sizes: shards may have been packed anew.
  std::string sizes, ids;
  std::string base;  // weights that an adapter is trained beside
};

DataIdentity identity_of(const RunData& data);
std::string identity_of(const TokenSpan& tokens);  // as in `val`

// What differs, as a sentence that the past comes first in; "" if nothing is known to.
std::string data_difference(const DataIdentity& before, const DataIdentity& now);

}  // namespace gpt
