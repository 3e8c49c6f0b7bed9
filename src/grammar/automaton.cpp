#include "grammar/automaton.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "grammar/nfa.h"

namespace gpt::grammar {
namespace {

using NodeSet = std::vector<int32_t>;  // sorted

struct NodeSetHash {
  size_t operator()(const NodeSet& set) const {
    uint64_t hash = set.size();
    for (const int32_t node : set)
      hash = (hash ^ static_cast<uint64_t>(node)) * 0x9E3779B97F4A7C15ULL, hash ^= hash >> 29;
    return hash;
  }
};

// An automaton under construction, in which each state has its own list of edges.
struct Draft {
  struct State {
    std::vector<Automaton::ByteEdge> bytes;
    std::vector<Automaton::CallEdge> calls;
    bool final = false;
  };
  std::vector<State> states;
  std::vector<int32_t> starts;  // start state of each rule, in the order of `Automaton::rules`
};

// Builds the states of one rule with the subset construction (Rabin & Scott 1959).
class Determiniser {
 public:
  Determiniser(const Nfa& nfa, const Limits& limits, Draft& draft, int64_t& steps_left)
      : nfa_(nfa), limits_(limits), draft_(draft), steps_left_(steps_left), seen_(nfa.nodes.size(), 0) {}

  // Returns the start state of the rule.
  int32_t run() {
    const int32_t start = add_state();
    expand(start, closure({nfa_.start}));
    // A node set gets its state when the set is first reached. The edges of the state are added later, in
    // this loop.
    while (!pending_.empty()) {
      const auto [state, set] = pending_.back();
      pending_.pop_back();
      draft_.states[static_cast<size_t>(state)].final =
          std::binary_search(set->begin(), set->end(), nfa_.end);
      expand(state, *set);
    }
    return start;
  }

 private:
  void count(int64_t steps) {
    if ((steps_left_ -= steps) < 0)
      fail("grammar: compilation takes more than {} steps; simplify it", limits_.max_steps);
  }

  int32_t add_state() {
    if (std::ssize(draft_.states) >= limits_.max_states)
      fail("grammar: more than {} states; reduce its repetition counts", limits_.max_states);
    draft_.states.emplace_back();
    return static_cast<int32_t>(draft_.states.size() - 1);
  }

  // Returns the epsilon closure of `open`. The result only contains nodes that read a byte or call a rule,
  // and the end node.
  NodeSet closure(NodeSet open) {
    NodeSet found;
    ++round_;
    for (const int32_t node : open)
      seen_[static_cast<size_t>(node)] = round_;
    while (!open.empty()) {
      const int32_t node = open.back();
      open.pop_back();
      bool reads = node == nfa_.end;
      for (int32_t e = nfa_.nodes[static_cast<size_t>(node)]; e >= 0;
           e = nfa_.edges[static_cast<size_t>(e)].next) {
        const Nfa::Edge& edge = nfa_.edges[static_cast<size_t>(e)];
        count(1);
        if (edge.kind != Nfa::Kind::empty) {
          reads = true;
        } else if (int32_t& seen = seen_[static_cast<size_t>(edge.target)]; seen != round_) {
          seen = round_;
          open.push_back(edge.target);
        }
      }
      if (reads) found.push_back(node);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  int32_t state_of(NodeSet targets) {
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    NodeSet set = closure(std::move(targets));
    const auto [at, fresh] = states_.try_emplace(std::move(set), -1);
    if (fresh) {
      at->second = add_state();
      count(std::ssize(at->first));
      pending_.push_back({at->second, &at->first});
    }
    return at->second;
  }

  void expand(int32_t state, const NodeSet& set) {
    std::vector<const Nfa::Edge*> byte_edges;
    std::map<RuleId, NodeSet> calls;
    std::bitset<257> cuts;
    for (const int32_t node : set) {
      for (int32_t e = nfa_.nodes[static_cast<size_t>(node)]; e >= 0;
           e = nfa_.edges[static_cast<size_t>(e)].next) {
        const Nfa::Edge& edge = nfa_.edges[static_cast<size_t>(e)];
        if (edge.kind == Nfa::Kind::call) calls[edge.rule].push_back(edge.target);
        if (edge.kind != Nfa::Kind::bytes) continue;
        byte_edges.push_back(&edge);
        cuts[edge.first] = cuts[size_t{edge.last} + 1] = true;
      }
    }
    std::vector<Automaton::ByteEdge> bytes;
    for (size_t first = 0; first < 256;) {
      size_t end = first + 1;
      while (!cuts[end] && end < 256)
        ++end;
      add_range(byte_edges, first, end - 1, bytes);
      first = end;
    }
    std::vector<Automaton::CallEdge> call_edges;
    for (auto& [rule, targets] : calls)
      call_edges.push_back({rule, state_of(std::move(targets))});
    draft_.states[static_cast<size_t>(state)].bytes = std::move(bytes);
    draft_.states[static_cast<size_t>(state)].calls = std::move(call_edges);
  }

  void add_range(const std::vector<const Nfa::Edge*>& edges, size_t first, size_t last,
                 std::vector<Automaton::ByteEdge>& bytes) {
    count(std::ssize(edges));
    NodeSet targets;
    for (const Nfa::Edge* edge : edges)
      if (edge->first <= first && last <= edge->last) targets.push_back(edge->target);
    if (targets.empty()) return;
    const int32_t target = state_of(std::move(targets));
    if (!bytes.empty() && bytes.back().target == target && size_t{bytes.back().last} + 1 == first)
      bytes.back().last = static_cast<uint8_t>(last);
    else
      bytes.push_back({static_cast<uint8_t>(first), static_cast<uint8_t>(last), target});
  }

  const Nfa& nfa_;
  const Limits& limits_;
  Draft& draft_;
  int64_t& steps_left_;
  std::vector<int32_t> seen_;
  int32_t round_ = 0;
  std::unordered_map<NodeSet, int32_t, NodeSetHash> states_;
  std::vector<std::pair<int32_t, const NodeSet*>> pending_;
};

// Copies the draft, but leaves out edges to states from which the end of the rule cannot be reached. `ends`
// is the distance from each state to the end of its rule.
Automaton finished(const Draft& draft, const std::vector<uint32_t>& ends) {
  const auto ends_at = [&](int32_t state) { return ends[static_cast<size_t>(state)] != kNoEnd; };
  Automaton a;
  for (const Draft::State& s : draft.states) {
    Automaton::State state{.final = s.final};
    state.bytes_begin = static_cast<int32_t>(a.byte_edges.size());
    for (const Automaton::ByteEdge& edge : s.bytes)
      if (ends_at(edge.target)) a.byte_edges.push_back(edge);
    state.bytes_end = static_cast<int32_t>(a.byte_edges.size());
    state.calls_begin = static_cast<int32_t>(a.call_edges.size());
    for (const Automaton::CallEdge& edge : s.calls)
      if (ends_at(edge.target) && ends_at(draft.starts[static_cast<size_t>(edge.rule)]))
        a.call_edges.push_back(edge);
    state.calls_end = static_cast<int32_t>(a.call_edges.size());
    a.states.push_back(state);
  }
  return a;
}

// Assigns ranks to the rules in topological order: a rule comes before the rules that it calls before reading
// a byte.
void rank_rules(Automaton& a) {
  enum : char { fresh, open, done };
  std::vector<char> state(a.rules.size(), fresh);
  std::vector<std::pair<RuleId, size_t>> path;  // a rule and the index of its next call
  auto rank = static_cast<int32_t>(a.rules.size());
  for (RuleId root = 0; root < std::ssize(a.rules); ++root) {
    if (state[static_cast<size_t>(root)] != fresh) continue;
    path.push_back({root, 0});
    state[static_cast<size_t>(root)] = open;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      Automaton::Rule& r = a.rules[static_cast<size_t>(rule)];
      const auto calls = a.calls_of(r.start);
      if (next == calls.size()) {
        state[static_cast<size_t>(rule)] = done;
        r.rank = --rank;
        path.pop_back();
        continue;
      }
      const RuleId callee = calls[next++].rule;
      if (state[static_cast<size_t>(callee)] == open) {
        fail(
            "grammar: rule '{}' is left-recursive (it calls itself before it reads a character); write it as "
            "a repetition",
            a.rules[static_cast<size_t>(callee)].name);
      }
      if (state[static_cast<size_t>(callee)] == done) continue;
      state[static_cast<size_t>(callee)] = open;
      path.push_back({callee, 0});
    }
  }
}

}  // namespace

std::vector<uint32_t> cheapest_ends(const Automaton& a, std::span<const WeightedEdge> edges) {
  struct Use {  // an incoming edge of a state; a call also depends on state `other`
    int32_t from, other;
    uint32_t cost;
  };
  std::vector<std::vector<Use>> uses(a.states.size());
  for (const WeightedEdge& e : edges)
    uses[static_cast<size_t>(e.to)].push_back({e.from, -1, e.cost});
  for (int32_t s = 0; s < std::ssize(a.states); ++s) {
    for (const Automaton::CallEdge& call : a.calls_of(s)) {
      const int32_t start = a.rules[static_cast<size_t>(call.rule)].start;
      uses[static_cast<size_t>(start)].push_back({s, call.target, 0});
      if (start != call.target) uses[static_cast<size_t>(call.target)].push_back({s, start, 0});
    }
  }
  using Entry = std::pair<uint32_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  std::vector<uint32_t> ends(a.states.size(), kNoEnd);
  std::vector<char> settled(a.states.size(), 0);
  for (int32_t s = 0; s < std::ssize(a.states); ++s) {
    if (!a.states[static_cast<size_t>(s)].final) continue;
    ends[static_cast<size_t>(s)] = 0;
    queue.push({0, s});
  }
  while (!queue.empty()) {
    const auto [end, s] = queue.top();
    queue.pop();
    if (settled[static_cast<size_t>(s)]) continue;
    settled[static_cast<size_t>(s)] = 1;
    for (const Use& use : uses[static_cast<size_t>(s)]) {
      if (use.other >= 0 && !settled[static_cast<size_t>(use.other)]) continue;
      const uint32_t other = use.other >= 0 ? ends[static_cast<size_t>(use.other)] : 0;
      const uint32_t sum = sum_of_distances(sum_of_distances(end, other), use.cost);
      uint32_t& known = ends[static_cast<size_t>(use.from)];
      if (sum >= known) continue;
      known = sum;
      queue.push({sum, use.from});
    }
  }
  return ends;
}

Automaton build_automaton(const Rules& rules, RuleId root) {
  const RuleFacts facts = facts_of(rules);
  int64_t steps_left = rules.limits().max_steps;
  Draft draft;
  std::vector<RuleId> wanted{root};  // the rules, in the order of their new numbers
  std::vector<RuleId> numbers(rules.rules().size(), -1);
  numbers[static_cast<size_t>(root)] = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const Rules::Rule& rule = rules.rules()[static_cast<size_t>(wanted[i])];
    if (rule.body < 0) fail("grammar: rule '{}' is used but not defined", rule.name);
    const auto first = draft.states.size();
    const Nfa nfa = make_nfa(rules, wanted[i], facts, steps_left);
    draft.starts.push_back(Determiniser(nfa, rules.limits(), draft, steps_left).run());
    for (size_t s = first; s < draft.states.size(); ++s) {
      for (Automaton::CallEdge& call : draft.states[s].calls) {
        RuleId& number = numbers[static_cast<size_t>(call.rule)];
        if (number < 0) {
          number = static_cast<RuleId>(wanted.size());
          wanted.push_back(call.rule);
        }
        call.rule = number;
      }
    }
  }
  const auto with_rules = [&](Automaton a) {
    for (size_t i = 0; i < wanted.size(); ++i)
      a.rules.push_back({rules.rules()[static_cast<size_t>(wanted[i])].name, draft.starts[i]});
    a.empty_text = facts.rules[static_cast<size_t>(root)].empty_text;
    return a;
  };
  const std::vector<uint32_t> all(draft.states.size(), 0);
  const Automaton whole = with_rules(finished(draft, all));
  std::vector<WeightedEdge> edges;
  for (int32_t s = 0; s < std::ssize(whole.states); ++s)
    for (const Automaton::ByteEdge& edge : whole.bytes_of(s))
      edges.push_back({s, edge.target, 1});
  const std::vector<uint32_t> ends = cheapest_ends(whole, edges);
  if (ends[static_cast<size_t>(draft.starts[0])] == kNoEnd && !whole.empty_text)
    fail("grammar: rule '{}' matches no text of finite length", whole.rules[0].name);
  Automaton result = with_rules(finished(draft, ends));
  rank_rules(result);
  return result;
}

}  // namespace gpt::grammar
