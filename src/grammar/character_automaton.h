#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/regex_grammar.h"
#include "grammar/rules.h"

namespace gpt::grammar {

// A deterministic automaton over characters. Patterns, formats and lengths that one string must fulfil
// together are intersected as such automata before a rule is written.
struct CharacterAutomaton {
  struct Edge {
    CodePointSet characters;  // sets of one state's edges are disjoint
    int32_t target;
  };
  struct State {
    std::vector<Edge> edges = {};
    bool final = false;
  };
  std::vector<State> states;  // the first one is the start
};

// These functions throw Error that begins with `what` for automata beyond the limits.

// The texts of a regular expression, by the smallest automaton. Throws Error as regex_expression does.
CharacterAutomaton pattern_automaton(std::string_view pattern, PatternRange range, const Limits& limits,
                                     const std::string& what);
// The texts of both.
CharacterAutomaton intersection(const CharacterAutomaton& a, const CharacterAutomaton& b,
                                const Limits& limits, const std::string& what);
// The texts of min to max characters; max -1: no limit.
CharacterAutomaton with_length(const CharacterAutomaton& a, int64_t min, int64_t max, const Limits& limits,
                               const std::string& what);
// The texts of one or the other.
CharacterAutomaton either(const CharacterAutomaton& a, const CharacterAutomaton& b, const Limits& limits,
                          const std::string& what);
// A text of `a` and then one of `b`. Where a text of `a` can end it cannot continue with a character with
// which a text of `b` begins.
CharacterAutomaton joined(CharacterAutomaton a, const CharacterAutomaton& b);

// The automaton as an expression.
Expr automaton_expression(Rules& rules, const CharacterAutomaton& automaton, const CharacterForms& forms);

}  // namespace gpt::grammar
