#pragma once

#include <cstddef>
#include <cstdint>

namespace gpt::grammar {

// Size limits for grammars from untrusted sources. A grammar that exceeds a limit causes an Error that names
// the limit.
struct Limits {
  size_t max_text = size_t{1} << 20;             // bytes of a grammar, schema or pattern
  int max_nesting = 128;                         // nesting depth of groups, schemas or values
  int64_t max_repetition = 10000;                // largest number in {m,n}, maxLength, maxItems
  int64_t max_rules = int64_t{1} << 16;          // rules or schemas
  int64_t max_expressions = int64_t{1} << 20;    // expression nodes of all rules
  int64_t max_states = int64_t{1} << 18;         // states of all automata
  int64_t max_steps = int64_t{5} * 1000 * 1000;  // construction steps of some tens of nanoseconds each
};

}  // namespace gpt::grammar
