#pragma once

#include <cstdint>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/vocabulary.h"

namespace gpt::grammar {

// The fewest tokens of an answer, or, where finding them takes too long, a number that no answer can do with
// less. token_ends: as TokenMasks has them. Throws Error where the vocabulary has no tokens for any answer.
int64_t shortest_answer(const Grammar& grammar, const Vocabulary& vocabulary,
                        const std::vector<uint32_t>& token_ends);

}  // namespace gpt::grammar
