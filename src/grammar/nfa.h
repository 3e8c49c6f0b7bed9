#pragma once

#include <cstdint>
#include <vector>

#include "grammar/rules.h"

namespace gpt::grammar {

// The expression of one rule as a nondeterministic automaton (Thompson 1968).
struct Nfa {
  enum class Kind : uint8_t { empty, bytes, call };
  struct Edge {
    Kind kind;
    uint8_t first, last;  // bytes
    RuleId rule;          // call
    int32_t target;
    int32_t next;  // edge of the same node; -1: none
  };
  std::vector<int32_t> nodes;  // the first edge of each; -1: none
  std::vector<Edge> edges;
  int32_t start = 0, end = 1;
};

// Which rules have the empty text.
std::vector<char> rules_with_empty_text(const Rules& rules);

// A call of a rule that has the empty text gets an empty edge beside it. Throws Error beyond the limit of
// steps, of which it counts each node.
Nfa make_nfa(const Rules& rules, RuleId rule, const std::vector<char>& with_empty_text, int64_t& steps_left);

}  // namespace gpt::grammar
