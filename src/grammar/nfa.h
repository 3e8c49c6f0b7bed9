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

// What is known of an expression, or of a rule's.
struct ExprFacts {
  static constexpr int32_t kShort = 12, kSmall = 300;

  bool empty_text = false;       // whether it has the empty text
  int32_t longest = kShort + 1;  // bytes of its longest text; kShort + 1 stands for more
  int32_t size = kSmall + 1;  // with the rules that are written in place of calls; kSmall + 1 stands for more

  // Rules of a few short texts, as that of a character in a string, are written in place of their calls: else
  // the tokens of a string would end them again and again.
  bool in_place() const { return longest <= kShort && size <= kSmall; }
};
struct RuleFacts {
  std::vector<ExprFacts> rules, expressions;
};
// Throws Error beyond the limit of steps.
RuleFacts facts_of(const Rules& rules);

// A call of a rule that has the empty text gets an empty edge beside it. Throws Error beyond the limit of
// steps, of which it counts each node.
Nfa make_nfa(const Rules& rules, RuleId rule, const RuleFacts& facts, int64_t& steps_left);

}  // namespace gpt::grammar
