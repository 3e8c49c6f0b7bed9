#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/token_data.h"

namespace gpt {

// A hash of the ids: equal for equal ids, whether they come from text or from shards. Of more than 2^25 ids,
// 256 pieces of 2^16 spread over all of them are read, so that shards as large as a disk delay no start.
uint64_t token_hash(const TokenSpan& tokens);

// A hash of a text of bytes; and as 16 hexadecimal digits.
uint64_t bytes_hash(std::string_view bytes);
std::string hex_hash(std::string_view bytes);

}  // namespace gpt
