#pragma once

#include <cstdint>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

namespace gpt::grammar {

// Returns the minimum number of tokens in an output, or a lower bound if the search takes too long.
// `token_ends` is the result of TokenMasks::token_ends. Throws Error if the vocabulary has no tokens for any
// output of the grammar.
int64_t shortest_answer(const Grammar& grammar, const Vocabulary& vocabulary,
                        const std::vector<uint32_t>& token_ends);

}  // namespace gpt::grammar
