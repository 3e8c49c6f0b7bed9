#pragma once

#include <cstdint>
#include <string>

namespace gpt {

struct RunData;

// What a run reads: the same on resume. Hashes are texts of 16 hexadecimal digits, "" where they are not
// known.
struct DataIdentity {
  int64_t tokens = 0;  // of the training text
  std::string train, val, tokenizer;

  bool operator==(const DataIdentity&) const = default;
};

DataIdentity identity_of(const RunData& data);

}  // namespace gpt
