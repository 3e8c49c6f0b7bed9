#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/token_data.h"

namespace gpt {

// Returns a hash of the ids. Equal ids have equal hashes, whether they come from text or from shards. For
// more than 2^25 ids, the hash covers 256 evenly spaced pieces of 2^16 ids, so that large shards do not delay
// the start of a run.
uint64_t token_hash(const TokenSpan& tokens);

// Return the hash of a byte string, as a number and as 16 hexadecimal digits.
uint64_t bytes_hash(std::string_view bytes);
std::string hex_hash(std::string_view bytes);

}  // namespace gpt
