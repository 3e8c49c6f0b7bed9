#include "grammar/character_automaton.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "grammar/nfa.h"

namespace gpt::grammar {
namespace {

using State = CharacterAutomaton::State;
constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

void add_edge(State& state, const CodePointSet& characters, int32_t target) {
  const auto known = std::ranges::find(state.edges, target, &CharacterAutomaton::Edge::target);
  if (known == state.edges.end()) {
    state.edges.push_back({characters, target});
  } else {
    known->characters.add(characters);
  }
}

// Returns the intersection of two character sets.
CodePointSet common(CodePointSet a, const CodePointSet& b) {
  a.remove(b.complement());
  return a;
}

// A class of characters that belong to exactly the same character sets. `in_set[i]` is 1 if set i contains
// the class.
struct CharacterClass {
  CodePointSet characters;
  std::vector<char> in_set;
};
std::vector<CharacterClass> classes_of(const std::vector<CodePointSet>& sets) {
  std::set<char32_t> cuts{0};
  for (const CodePointSet& set : sets) {
    for (const CodePointSet::Range& range : set.ranges()) {
      cuts.insert(range.first);
      if (range.last < CodePointSet::kLast) cuts.insert(range.last + 1);
    }
  }
  std::map<std::vector<char>, CodePointSet> found;
  for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
    const auto next = std::next(cut);
    std::vector<char> in_set;
    for (const CodePointSet& set : sets)
      in_set.push_back(set.contains(*cut) ? 1 : 0);
    found[in_set].add(*cut, next == cuts.end() ? CodePointSet::kLast : *next - 1);
  }
  std::vector<CharacterClass> classes;
  for (auto& [in_set, characters] : found)
    if (std::ranges::find(in_set, 1) != in_set.end()) classes.push_back({characters, in_set});
  return classes;
}

// The transition table of an automaton. targets[state][class] is the next state, or -1 if there is no
// transition.
struct Table {
  std::vector<std::vector<int32_t>> targets;
  std::vector<char> final;
};

// Converts the NFA of a pattern to a deterministic automaton over character classes. An edge of this NFA
// calls a rule that represents a set of characters.
class PatternDeterminiser {
 public:
  PatternDeterminiser(const Nfa& nfa, const std::map<RuleId, size_t>& set_of,
                      const std::vector<CharacterClass>& classes, const Limits& limits,
                      const std::string& what)
      : nfa_(nfa), set_of_(set_of), classes_(classes), limits_(limits), what_(what) {}

  Table run() {
    state_of({nfa_.start});
    for (size_t state = 0; state < sets_.size(); ++state) {
      std::vector<int32_t> row;
      for (const CharacterClass& one : classes_)
        row.push_back(state_of(after(*sets_[state], one)));
      table_.targets.push_back(std::move(row));
    }
    return std::move(table_);
  }

 private:
  using NodeSet = std::set<int32_t>;
  static constexpr int64_t kStepsOfEdge = 4;  // reading an edge of a node set takes about as long as 4 steps

  template <class F>
  void each_edge(int32_t node, F&& f) {
    for (int32_t e = nfa_.nodes[static_cast<size_t>(node)]; e >= 0;
         e = nfa_.edges[static_cast<size_t>(e)].next) {
      if ((steps_ += kStepsOfEdge) > limits_.max_steps)
        fail("{}: combining it with the other keywords takes more than {} steps; simplify it", what_,
             limits_.max_steps);
      f(nfa_.edges[static_cast<size_t>(e)]);
    }
  }

  NodeSet after(const NodeSet& from, const CharacterClass& read) {
    NodeSet targets;
    for (const int32_t node : from) {
      each_edge(node, [&](const Nfa::Edge& edge) {
        if (edge.kind == Nfa::Kind::call && read.in_set[set_number(edge.rule)]) targets.insert(edge.target);
      });
    }
    return targets;
  }

  size_t set_number(RuleId rule) const {
    const auto found = set_of_.find(rule);
    if (found == set_of_.end())  // a rule that Rules::repeat created for a large repetition
      fail("{}: its repetition counts are too large to combine with other keywords; reduce them", what_);
    return found->second;
  }

  int32_t state_of(NodeSet nodes) {
    if (nodes.empty()) return -1;
    std::vector<int32_t> open(nodes.begin(), nodes.end());
    while (!open.empty()) {
      const int32_t node = open.back();
      open.pop_back();
      each_edge(node, [&](const Nfa::Edge& edge) {
        if (edge.kind == Nfa::Kind::empty && nodes.insert(edge.target).second) open.push_back(edge.target);
      });
    }
    const auto [known, fresh] = numbers_.try_emplace(std::move(nodes), static_cast<int32_t>(sets_.size()));
    if (fresh) {
      sets_.push_back(&known->first);
      table_.final.push_back(known->first.contains(nfa_.end) ? 1 : 0);
    }
    return known->second;
  }

  const Nfa& nfa_;
  const std::map<RuleId, size_t>& set_of_;
  const std::vector<CharacterClass>& classes_;
  const Limits& limits_;
  const std::string& what_;
  int64_t steps_ = 0;
  std::map<NodeSet, int32_t> numbers_;
  std::vector<const NodeSet*> sets_;  // indexed by state
  Table table_;
};

// Returns the number of the equivalence class of each state. Equivalent states accept the same strings.
// Source: Moore 1956.
std::vector<int32_t> merged_states(const Table& table) {
  const size_t n = table.targets.size();
  std::vector<int32_t> group(table.final.begin(), table.final.end());
  for (size_t groups = 0;;) {
    std::map<std::vector<int32_t>, int32_t> known;
    std::vector<int32_t> next;
    for (size_t s = 0; s < n; ++s) {
      std::vector<int32_t> key{group[s]};
      for (const int32_t target : table.targets[s])
        key.push_back(target < 0 ? -1 : group[static_cast<size_t>(target)]);
      next.push_back(known.try_emplace(std::move(key), static_cast<int32_t>(known.size())).first->second);
    }
    group = std::move(next);
    if (known.size() == groups) return group;
    groups = known.size();
  }
}

// Returns the minimal automaton of a transition table. State 0 is still the start state.
CharacterAutomaton smallest(const Table& table, const std::vector<CharacterClass>& classes) {
  const std::vector<int32_t> group = merged_states(table);
  CharacterAutomaton out;
  out.states.resize(static_cast<size_t>(*std::ranges::max_element(group)) + 1);
  std::vector<char> written(out.states.size(), 0);
  for (size_t s = 0; s < group.size(); ++s) {
    const auto number = static_cast<size_t>(group[s]);
    if (std::exchange(written[number], 1)) continue;
    out.states[number].final = table.final[s] != 0;
    for (size_t c = 0; c < classes.size(); ++c) {
      const int32_t target = table.targets[s][c];
      if (target >= 0)
        add_edge(out.states[number], classes[c].characters, group[static_cast<size_t>(target)]);
    }
  }
  return out;
}

// Returns the length of the shortest string accepted from each state, or kEndless if no string is accepted.
std::vector<int64_t> shortest_texts(const CharacterAutomaton& a) {
  std::vector<int64_t> shortest(a.states.size(), kEndless);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t s = 0; s < a.states.size(); ++s) {
      int64_t least = a.states[s].final ? 0 : kEndless;
      for (const auto& edge : a.states[s].edges) {
        const int64_t rest = shortest[static_cast<size_t>(edge.target)];
        if (rest != kEndless) least = std::min(least, rest + 1);
      }
      changed |= least < shortest[s];
      shortest[s] = least;
    }
  }
  return shortest;
}

// Assigns numbers to pairs in the order in which the pairs are first seen.
template <class Pair>
class Pairs {
 public:
  Pairs(const Limits& limits, const std::string& what) : limits_(limits), what_(what) {}
  int32_t number(const Pair& pair) {
    const auto [known, fresh] = numbers_.try_emplace(pair, static_cast<int32_t>(all_.size()));
    if (fresh) all_.push_back(pair);
    if (std::ssize(all_) > limits_.max_states / 2)
      fail(
          "{}: combining it with the other keywords needs more than {} states; simplify it or reduce its "
          "lengths",
          what_, limits_.max_states / 2);
    return known->second;
  }
  size_t size() const { return all_.size(); }
  Pair operator[](size_t i) const { return all_[i]; }

 private:
  const Limits& limits_;
  const std::string& what_;
  std::map<Pair, int32_t> numbers_;
  std::vector<Pair> all_;
};

}  // namespace

CharacterAutomaton pattern_automaton(std::string_view pattern, PatternRange range, const Limits& limits,
                                     const std::string& what) {
  Rules rules(limits);
  const RuleId root = rules.declare(what);
  std::vector<CodePointSet> sets;
  std::map<RuleId, size_t> set_of;  // a rule without a body represents a set of characters
  const auto one_of = [&](const CodePointSet& set) {
    const RuleId rule = rules.declare("character");
    set_of[rule] = sets.size();
    sets.push_back(set);
    return rules.call(rule);
  };
  const CharacterForms forms{one_of, [&] { return one_of(CodePointSet::all()); }};
  rules.define(root, regex_expression(rules, pattern, forms, range, what));
  int64_t steps_left = limits.max_steps;
  const Nfa nfa = make_nfa(rules, root, facts_of(rules), steps_left);
  const std::vector<CharacterClass> classes = classes_of(sets);
  return smallest(PatternDeterminiser(nfa, set_of, classes, limits, what).run(), classes);
}

CharacterAutomaton intersection(const CharacterAutomaton& a, const CharacterAutomaton& b,
                                const Limits& limits, const std::string& what) {
  Pairs<std::pair<int32_t, int32_t>> pairs(limits, what);
  pairs.number({0, 0});
  CharacterAutomaton out;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const State& x = a.states[static_cast<size_t>(pairs[i].first)];
    const State& y = b.states[static_cast<size_t>(pairs[i].second)];
    State state{.final = x.final && y.final};
    for (const auto& left : x.edges) {
      for (const auto& right : y.edges) {
        const CodePointSet both = common(left.characters, right.characters);
        if (!both.empty()) add_edge(state, both, pairs.number({left.target, right.target}));
      }
    }
    out.states.push_back(std::move(state));
  }
  return out;
}

CharacterAutomaton with_length(const CharacterAutomaton& a, int64_t min, int64_t max, const Limits& limits,
                               const std::string& what) {
  const std::vector<int64_t> shortest = shortest_texts(a);
  const auto may_follow = [&](int32_t state, int64_t length) {
    const int64_t rest = shortest[static_cast<size_t>(state)];
    return rest != kEndless && (max < 0 || length + rest <= max);
  };
  Pairs<std::pair<int32_t, int64_t>> pairs(limits, what);
  pairs.number({0, 0});
  CharacterAutomaton out;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [from, length] = pairs[i];
    const State& x = a.states[static_cast<size_t>(from)];
    State state{.final = x.final && length >= min && (max < 0 || length <= max)};
    const int64_t next = max < 0 ? std::min(length + 1, min) : length + 1;
    for (const auto& edge : x.edges)
      if (may_follow(edge.target, next)) add_edge(state, edge.characters, pairs.number({edge.target, next}));
    out.states.push_back(std::move(state));
  }
  return out;
}

CharacterAutomaton either(const CharacterAutomaton& a, const CharacterAutomaton& b, const Limits& limits,
                          const std::string& what) {
  Pairs<std::pair<int32_t, int32_t>> pairs(limits, what);  // state -1: this automaton has rejected the string
  pairs.number({0, 0});
  CharacterAutomaton out;
  const State none;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const State& x = pairs[i].first < 0 ? none : a.states[static_cast<size_t>(pairs[i].first)];
    const State& y = pairs[i].second < 0 ? none : b.states[static_cast<size_t>(pairs[i].second)];
    State state{.final = x.final || y.final};
    CodePointSet in_x, in_y;
    for (const auto& edge : x.edges)
      in_x.add(edge.characters);
    for (const auto& edge : y.edges)
      in_y.add(edge.characters);
    const auto add = [&](const CodePointSet& characters, std::pair<int32_t, int32_t> target) {
      if (!characters.empty()) add_edge(state, characters, pairs.number(target));
    };
    for (const auto& left : x.edges) {
      add(common(left.characters, in_y.complement()), {left.target, -1});
      for (const auto& right : y.edges)
        add(common(left.characters, right.characters), {left.target, right.target});
    }
    for (const auto& right : y.edges)
      add(common(right.characters, in_x.complement()), {-1, right.target});
    out.states.push_back(std::move(state));
  }
  return out;
}

CharacterAutomaton joined(CharacterAutomaton a, const CharacterAutomaton& b) {
  const auto offset = static_cast<int32_t>(a.states.size());
  const auto moved = [&](State state) {
    for (auto& edge : state.edges)
      edge.target += offset;
    return state;
  };
  const State start = moved(b.states[0]);
  for (State& state : a.states) {
    if (!std::exchange(state.final, start.final && state.final)) continue;
    state.edges.insert(state.edges.end(), start.edges.begin(), start.edges.end());
  }
  for (const State& state : b.states)
    a.states.push_back(moved(state));
  return a;
}

Expr automaton_expression(Rules& rules, const CharacterAutomaton& automaton, const CharacterForms& forms) {
  std::map<std::vector<std::pair<char32_t, char32_t>>, Expr> written;
  const auto label = [&](const CodePointSet& set) {
    std::vector<std::pair<char32_t, char32_t>> key;
    for (const CodePointSet::Range& range : set.ranges())
      key.emplace_back(range.first, range.last);
    const auto [known, fresh] = written.try_emplace(std::move(key));
    if (fresh) {
      const RuleId rule = rules.declare("character");
      rules.define(rule, set.complement().empty() ? forms.any() : forms.one_of(set));
      known->second = rules.call(rule);
    }
    return known->second;
  };
  std::vector<Rules::GraphEdge> edges;
  for (size_t s = 0; s < automaton.states.size(); ++s) {
    const auto from = static_cast<int32_t>(s);
    for (const auto& edge : automaton.states[s].edges)
      edges.push_back({from, edge.target, label(edge.characters)});
    if (automaton.states[s].final) edges.push_back({from, Rules::kGraphEnd, rules.nothing()});
  }
  return rules.graph(edges);
}

}  // namespace gpt::grammar
