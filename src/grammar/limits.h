#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt::grammar {

// What a grammar of unknown origin may cost. Exceeding one of these is an Error that names it.
struct Limits {
  size_t max_text = size_t{1} << 20;             // bytes of a grammar, a schema or a pattern
  int max_nesting = 128;                         // groups, schemas or values inside each other
  int64_t max_repetition = 10000;                // the largest number in {m,n}, maxLength, maxItems
  int64_t max_rules = int64_t{1} << 16;          // rules, or schemas
  int64_t max_expressions = int64_t{1} << 20;    // parts of all rules
  int64_t max_states = int64_t{1} << 18;         // of all automata
  int64_t max_steps = int64_t{5} * 1000 * 1000;  // of building them, some tens of nanoseconds each
};

}  // namespace gpt::grammar
