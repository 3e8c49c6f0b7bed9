#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "grammar/rules.h"

namespace gpt::grammar {

inline constexpr uint32_t kNoEnd = std::numeric_limits<uint32_t>::max();  // distance if there is no path

// Returns the sum of two distances, or kNoEnd if either distance is kNoEnd or the sum overflows.
inline uint32_t sum_of_distances(uint32_t a, uint32_t b) {
  return a == kNoEnd || b == kNoEnd || a + b < a ? kNoEnd : a + b;
}

// A compiled grammar, consisting of one deterministic automaton per rule. An edge either reads one byte or
// calls a rule. The end of the rule can be reached from every state. The start state of a rule has no
// incoming edges within the rule and is never final. If a rule matches the empty string, its callers have an
// edge that skips the call. Immutable.
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
    int32_t bytes_begin = 0, bytes_end = 0;  // index range in byte_edges; sorted, no overlaps
    int32_t calls_begin = 0, calls_end = 0;  // index range in call_edges; these edges call different rules
    bool final = false;                      // true if the rule may end in this state
  };
  struct Rule {
    std::string name;
    int32_t start;
    // Position in a topological order. If a rule calls a second rule before it reads a byte, the second rule
    // has the higher rank. All ranks are different.
    int32_t rank = 0;
  };
  std::vector<State> states;
  std::vector<ByteEdge> byte_edges;
  std::vector<CallEdge> call_edges;
  std::vector<Rule> rules;  // the root is rule 0
  bool empty_text = false;  // true if rule 0 matches the empty string

  std::span<const ByteEdge> bytes_of(int32_t state) const {
    const State& s = states[static_cast<size_t>(state)];
    return {byte_edges.data() + s.bytes_begin, byte_edges.data() + s.bytes_end};
  }
  std::span<const CallEdge> calls_of(int32_t state) const {
    const State& s = states[static_cast<size_t>(state)];
    return {call_edges.data() + s.calls_begin, call_edges.data() + s.calls_end};
  }
};

// Builds the automaton of a root rule and of all rules that the root needs. Throws Error, with the name of
// the rule, if a rule has no definition, if a rule is left-recursive, or if the root matches no string of
// finite length. Also throws Error if the grammar exceeds a limit.
Automaton build_automaton(const Rules& rules, RuleId root);

// A path between two states of the same rule, with its cost.
struct WeightedEdge {
  int32_t from, to;
  uint32_t cost;
};
// Returns, for each state, the cost of the cheapest path to the end of its rule. `edges` lists the paths that
// read bytes. A call costs as much as the cheapest path through the called rule. Source: Knuth 1977, "A
// generalization of Dijkstra's algorithm".
std::vector<uint32_t> cheapest_ends(const Automaton& automaton, std::span<const WeightedEdge> edges);

}  // namespace gpt::grammar
