#include "grammar/nfa.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"

namespace gpt::grammar {
namespace {

using Kind = Rules::Kind;

class NfaBuilder {
 public:
  NfaBuilder(const Rules& rules, const RuleFacts& facts, int64_t& steps_left)
      : rules_(rules), facts_(facts), steps_left_(steps_left) {}

  Nfa build(RuleId rule) {
    nfa_.start = node();
    nfa_.end = node();
    connect(rules_.rules()[static_cast<size_t>(rule)].body, nfa_.start, nfa_.end);
    return std::move(nfa_);
  }

 private:
  int32_t node() {
    if (--steps_left_ < 0)
      fail("grammar: compilation takes more than {} steps; simplify it", rules_.limits().max_steps);
    nfa_.nodes.push_back(-1);
    return static_cast<int32_t>(nfa_.nodes.size() - 1);
  }

  void edge(int32_t from, Nfa::Edge edge) {
    --steps_left_;
    int32_t& first = nfa_.nodes[static_cast<size_t>(from)];
    edge.next = first;
    first = static_cast<int32_t>(nfa_.edges.size());
    nfa_.edges.push_back(edge);
  }
  void empty(int32_t from, int32_t to) { edge(from, {Nfa::Kind::empty, 0, 0, 0, to, -1}); }
  void bytes(int32_t from, int32_t to, uint8_t first, uint8_t last) {
    edge(from, {Nfa::Kind::bytes, first, last, 0, to, -1});
  }

  // The recursion depth is the depth of the expression. Rules limits this depth.
  void connect(Expr e, int32_t from, int32_t to) {
    const Rules::Node& n = rules_.node(e);
    switch (n.kind) {
      case Kind::text:
        return connect_text(rules_.text_of(n), from, to);
      case Kind::byte_range:
        return bytes(from, to, static_cast<uint8_t>(n.first), static_cast<uint8_t>(n.last));
      case Kind::sequence:
        return connect_sequence(rules_.parts_of(n), from, to);
      case Kind::choice:
        for (const Expr option : rules_.parts_of(n))
          connect(option, from, to);
        return;
      case Kind::repeat:
        return connect_repeat(n, from, to);
      case Kind::call:
        return connect_call(static_cast<RuleId>(n.first), from, to);
      case Kind::graph:
        return connect_graph(rules_.edges_of(n), from, to);
    }
  }

  void connect_text(std::string_view text, int32_t from, int32_t to) {
    if (text.empty()) return empty(from, to);
    for (size_t i = 0; i < text.size(); ++i) {
      const int32_t next = i + 1 == text.size() ? to : node();
      const auto byte = static_cast<uint8_t>(text[i]);
      bytes(from, next, byte, byte);
      from = next;
    }
  }

  void connect_sequence(std::span<const Expr> parts, int32_t from, int32_t to) {
    if (parts.empty()) return empty(from, to);
    for (size_t i = 0; i < parts.size(); ++i) {
      const int32_t next = i + 1 == parts.size() ? to : node();
      connect(parts[i], from, next);
      from = next;
    }
  }

  void connect_call(RuleId rule, int32_t from, int32_t to) {
    const ExprFacts& facts = facts_.rules[static_cast<size_t>(rule)];
    if (facts.in_place() && !calls_only_)
      return connect(rules_.rules()[static_cast<size_t>(rule)].body, from, to);
    edge(from, {Nfa::Kind::call, 0, 0, rule, to, -1});
    if (facts.empty_text) empty(from, to);
  }

  void connect_repeat(const Rules::Node& n, int32_t from, int32_t to) {
    const bool outside = calls_only_;
    const int64_t size = facts_.expressions[static_cast<size_t>(n.part)].size;
    calls_only_ |= size * std::max(n.first, n.last) > kMostCopied;
    connect_rounds(n, from, to);
    calls_only_ = outside;
  }

  void connect_graph(std::span<const Rules::GraphEdge> edges, int32_t from, int32_t to) {
    std::map<int32_t, int32_t> nodes;  // by state of the graph
    const auto node_of = [&](int32_t state) {
      if (state == Rules::kGraphEnd) return to;
      const auto [known, fresh] = nodes.try_emplace(state, -1);
      if (fresh) known->second = node();
      return known->second;
    };
    int64_t size = 0;
    for (const Rules::GraphEdge& edge : edges)
      size += facts_.expressions[static_cast<size_t>(edge.label)].size;
    const bool outside = calls_only_;
    calls_only_ |= size > kMostCopied;
    empty(from, node_of(0));
    for (const Rules::GraphEdge& edge : edges) {
      const int32_t first = node_of(edge.from);
      connect(edge.label, first, node_of(edge.to));
    }
    calls_only_ = outside;
  }

  void connect_rounds(const Rules::Node& n, int32_t from, int32_t to) {
    for (int64_t round = 0; round < n.first; ++round) {
      const int32_t next = node();
      connect(n.part, from, next);
      from = next;
    }
    if (n.last < 0) {
      const int32_t loop = node();
      empty(from, loop);
      connect(n.part, loop, loop);
      return empty(loop, to);
    }
    for (int64_t round = n.first; round < n.last; ++round) {
      const int32_t next = node();
      empty(from, to);
      connect(n.part, from, next);
      from = next;
    }
    empty(from, to);
  }

  const Rules& rules_;
  const RuleFacts& facts_;
  int64_t& steps_left_;
  bool calls_only_ = false;  // true inside a repetition that is too large for inlining rules
  Nfa nfa_;
};

ExprFacts limited(bool empty_text, int64_t longest, int64_t size) {
  return {empty_text, static_cast<int32_t>(std::min<int64_t>(longest, ExprFacts::kShort + 1)),
          static_cast<int32_t>(std::min<int64_t>(size, ExprFacts::kSmall + 1))};
}

// Returns true if a path from state 0 to the end only uses labels that match the empty string.
bool has_empty_text(std::span<const Rules::GraphEdge> edges, const RuleFacts& known) {
  std::set<int32_t> reached{0};
  for (size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const Rules::GraphEdge& edge : edges) {
      if (reached.contains(edge.from) && known.expressions[static_cast<size_t>(edge.label)].empty_text)
        reached.insert(edge.to);
    }
  }
  return reached.contains(Rules::kGraphEnd);
}

// Computes the properties of an expression. The parts of the expression have smaller indices, so their
// properties are already known. `known.rules` contains the results of the previous iteration.
ExprFacts facts_of(const Rules& rules, const Rules::Node& n, const RuleFacts& known) {
  const auto of = [&](Expr e) -> const ExprFacts& { return known.expressions[static_cast<size_t>(e)]; };
  int64_t longest = 0, size = 1;
  bool all_empty = true, any_empty = false;
  if (n.kind == Kind::sequence || n.kind == Kind::choice) {
    for (const Expr part : rules.parts_of(n)) {
      longest = n.kind == Kind::sequence ? longest + of(part).longest
                                         : std::max<int64_t>(longest, of(part).longest);
      size += of(part).size;
      all_empty &= of(part).empty_text;
      any_empty |= of(part).empty_text;
    }
  }
  switch (n.kind) {
    case Kind::text:
      return limited(n.first == n.last, n.last - n.first, n.last - n.first);
    case Kind::byte_range:
      return limited(false, 1, 1);
    case Kind::sequence:
      return limited(all_empty, longest, size);
    case Kind::choice:
      return limited(any_empty, longest, size);
    case Kind::repeat: {
      const ExprFacts& part = of(n.part);
      constexpr int64_t kMany = ExprFacts::kSmall + 1;
      return limited(n.first == 0 || part.empty_text, part.longest * (n.last < 0 ? kMany : n.last),
                     part.size * std::max<int64_t>({n.first, n.last, 1}));
    }
    case Kind::call:
      return known.rules[static_cast<size_t>(n.first)];
    case Kind::graph:
      return limited(has_empty_text(rules.edges_of(n), known), ExprFacts::kShort + 1,
                     std::ssize(rules.edges_of(n)));
  }
  return {};
}

}  // namespace

RuleFacts facts_of(const Rules& rules) {
  RuleFacts facts{std::vector<ExprFacts>(rules.rules().size()),
                  std::vector<ExprFacts>(static_cast<size_t>(rules.size()))};
  int64_t steps_left = rules.limits().max_steps;
  for (bool changed = true; changed;) {
    changed = false;
    steps_left -= rules.size();
    if (steps_left < 0)
      fail("grammar: compilation takes more than {} steps; simplify it", rules.limits().max_steps);
    for (Expr e = 0; e < rules.size(); ++e)
      facts.expressions[static_cast<size_t>(e)] = facts_of(rules, rules.node(e), facts);
    for (size_t r = 0; r < facts.rules.size(); ++r) {
      const Expr body = rules.rules()[r].body;
      if (body < 0) continue;
      const ExprFacts& found = facts.expressions[static_cast<size_t>(body)];
      ExprFacts& known = facts.rules[r];
      changed |=
          found.empty_text != known.empty_text || found.longest != known.longest || found.size != known.size;
      known = found;
    }
  }
  return facts;
}

Nfa make_nfa(const Rules& rules, RuleId rule, const RuleFacts& facts, int64_t& steps_left) {
  return NfaBuilder(rules, facts, steps_left).build(rule);
}

}  // namespace gpt::grammar
