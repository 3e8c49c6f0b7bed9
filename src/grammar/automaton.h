#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "grammar/rules.h"

namespace gpt::grammar {

inline constexpr uint32_t kNoEnd = std::numeric_limits<uint32_t>::max();  // a distance: there is no way

// A sum of distances.
inline uint32_t sum_of_distances(uint32_t a, uint32_t b) {
  return a == kNoEnd || b == kNoEnd || a + b < a ? kNoEnd : a + b;
}

// A grammar as one deterministic automaton a rule, whose edges read a byte or call a rule. From every state
// there is a way to the end of its rule. The first state of a rule is entered by calls alone and is not
// final: where a rule has the empty text, callers have a way past it. Immutable.
struct Automaton {
  struct ByteEdge {
    uint8_t first, last;
    int32_t target;
  };
  struct CallEdge {
    RuleId rule;
    int32_t target;
  };
  struct State {
    int32_t bytes_begin = 0, bytes_end = 0;  // of byte_edges: in order, apart
    int32_t calls_begin = 0, calls_end = 0;  // of call_edges: each of another rule
    bool final = false;                      // the rule may end here
  };
  struct Rule {
    std::string name;
    int32_t start;
    int32_t rank = 0;  // rules that one calls before its first byte have higher ones; all are different
  };
  std::vector<State> states;
  std::vector<ByteEdge> byte_edges;
  std::vector<CallEdge> call_edges;
  std::vector<Rule> rules;  // the root is rule 0
  bool empty_text = false;  // whether the root has it

  std::span<const ByteEdge> bytes_of(int32_t state) const {
    const State& s = states[static_cast<size_t>(state)];
    return {byte_edges.data() + s.bytes_begin, byte_edges.data() + s.bytes_end};
  }
  std::span<const CallEdge> calls_of(int32_t state) const {
    const State& s = states[static_cast<size_t>(state)];
    return {call_edges.data() + s.calls_begin, call_edges.data() + s.calls_end};
  }
};

// The automaton of a root rule and of those that it needs. Throws Error, naming the rule, for rules without a
// definition, for left recursion, and for a root that has no text of finite length; for what exceeds the
// limits.
Automaton build_automaton(const Rules& rules, RuleId root);

// A way from one state to another of the same rule, and what it costs.
struct WeightedEdge {
  int32_t from, to;
  uint32_t cost;
};
// What the cheapest way from each state to the end of its rule costs, where edges that read bytes are those
// given and calls cost what the called rule does. Source: Knuth 1977, "A generalization of Dijkstra's
// algorithm".
std::vector<uint32_t> cheapest_ends(const Automaton& automaton, std::span<const WeightedEdge> edges);

}  // namespace gpt::grammar
