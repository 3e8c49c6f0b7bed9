#pragma once

#include <cstdint>
#include <vector>

#include "grammar/rules.h"

namespace gpt::grammar {

// A nondeterministic automaton for the expression of one rule (Thompson 1968).
struct Nfa {
  enum class Kind : uint8_t { empty, bytes, call };
  struct Edge {
    Kind kind;
    uint8_t first, last;  // only for Kind::bytes
    RuleId rule;          // only for Kind::call
    int32_t target;
    int32_t next;  // next edge of the same node; -1 for none
  };
  std::vector<int32_t> nodes;  // index of the first edge of each node; -1 for none
  std::vector<Edge> edges;
  int32_t start = 0, end = 1;
};

// Properties of an expression or of the body of a rule.
struct ExprFacts {
  static constexpr int32_t kShort = 12, kSmall = 300;

  bool empty_text = false;       // true if the expression matches the empty string
  int32_t longest = kShort + 1;  // length of the longest match in bytes; kShort + 1 means longer
  int32_t size = kSmall + 1;     // number of nodes, including those of inlined rules; kSmall + 1 means more

  // Returns true if the rule is inlined into its callers. Rules that match only a few short strings are
  // inlined, such as the rule for one character of a JSON string. Without inlining, one token would contain
  // many calls of such a rule.
  bool in_place() const { return longest <= kShort && size <= kSmall; }
};
struct RuleFacts {
  std::vector<ExprFacts> rules, expressions;
};
// Computes the properties of all expressions and rules. Throws Error if this takes more steps than allowed.
RuleFacts facts_of(const Rules& rules);

// Builds the NFA of a rule. If a called rule matches the empty string, an empty edge is added parallel to the
// call. Each node and each edge counts as one step. Throws Error if no steps are left.
Nfa make_nfa(const Rules& rules, RuleId rule, const RuleFacts& facts, int64_t& steps_left);

}  // namespace gpt::grammar
