#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/regex_grammar.h"
#include "grammar/rules.h"

namespace gpt::grammar {

// A deterministic automaton over characters. If one string must match several patterns, formats and lengths,
// their automata are intersected before the grammar rule is written.
struct CharacterAutomaton {
  struct Edge {
    CodePointSet characters;  // disjoint from the characters of the other edges of the state
    int32_t target;
  };
  struct State {
    std::vector<Edge> edges = {};
    bool final = false;
  };
  std::vector<State> states;  // state 0 is the start state
};

// The following functions throw Error if the automaton exceeds the limits. The error message begins with
// `what`.

// Returns the smallest automaton that accepts the strings of a regular expression. Throws the errors of
// regex_expression.
CharacterAutomaton pattern_automaton(std::string_view pattern, PatternRange range, const Limits& limits,
                                     const std::string& what);
// Returns an automaton that accepts the strings that both `a` and `b` accept.
CharacterAutomaton intersection(const CharacterAutomaton& a, const CharacterAutomaton& b,
                                const Limits& limits, const std::string& what);
// Returns an automaton that accepts the strings of `a` with min to max characters. max = -1 means no limit.
CharacterAutomaton with_length(const CharacterAutomaton& a, int64_t min, int64_t max, const Limits& limits,
                               const std::string& what);
// Returns an automaton that accepts the strings that `a` or `b` accepts.
CharacterAutomaton either(const CharacterAutomaton& a, const CharacterAutomaton& b, const Limits& limits,
                          const std::string& what);
// Returns an automaton that accepts a string of `a` followed by a string of `b`. After a complete string of
// `a`, the next character must not be ambiguous: `a` must not accept a character that can begin a string of
// `b`.
CharacterAutomaton joined(CharacterAutomaton a, const CharacterAutomaton& b);

// Returns an expression that matches the strings that the automaton accepts.
Expr automaton_expression(Rules& rules, const CharacterAutomaton& automaton, const CharacterForms& forms);

}  // namespace gpt::grammar
