#include "grammar/nfa.h"

#include <algorithm>

#include "base/error.h"

namespace gpt::grammar {
namespace {

using Kind = Rules::Kind;

class NfaBuilder {
 public:
  NfaBuilder(const Rules& rules, const std::vector<char>& with_empty_text, int64_t& steps_left)
      : rules_(rules), with_empty_text_(with_empty_text), steps_left_(steps_left) {}

  Nfa build(RuleId rule) {
    nfa_.start = node();
    nfa_.end = node();
    connect(rules_.rules()[static_cast<size_t>(rule)].body, nfa_.start, nfa_.end);
    return std::move(nfa_);
  }

 private:
  int32_t node() {
    if (--steps_left_ < 0)
      fail("grammar: building it takes more than {} steps: make it smaller", rules_.limits().max_steps);
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

  // As deep as the expression, which Rules limits.
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
        edge(from, {Nfa::Kind::call, 0, 0, static_cast<RuleId>(n.first), to, -1});
        if (with_empty_text_[static_cast<size_t>(n.first)]) empty(from, to);
        return;
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

  void connect_repeat(const Rules::Node& n, int32_t from, int32_t to) {
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
  const std::vector<char>& with_empty_text_;
  int64_t& steps_left_;
  Nfa nfa_;
};

bool has_empty_text(const Rules& rules, const Rules::Node& n, const std::vector<char>& nodes,
                    const std::vector<char>& known) {
  const auto has = [&](Expr e) { return nodes[static_cast<size_t>(e)] != 0; };
  switch (n.kind) {
    case Kind::text:
      return n.first == n.last;
    case Kind::byte_range:
      return false;
    case Kind::sequence:
      return std::ranges::all_of(rules.parts_of(n), has);
    case Kind::choice:
      return std::ranges::any_of(rules.parts_of(n), has);
    case Kind::repeat:
      return n.first == 0 || has(n.part);
    case Kind::call:
      return known[static_cast<size_t>(n.first)] != 0;
  }
  return false;
}

}  // namespace

std::vector<char> rules_with_empty_text(const Rules& rules) {
  std::vector<char> known(rules.rules().size(), 0), nodes(static_cast<size_t>(rules.size()), 0);
  int64_t steps_left = rules.limits().max_steps;
  for (bool changed = true; changed;) {  // parts of an expression stand before it
    changed = false;
    steps_left -= rules.size();
    if (steps_left < 0)
      fail("grammar: building it takes more than {} steps: make it smaller", rules.limits().max_steps);
    for (Expr e = 0; e < rules.size(); ++e)
      nodes[static_cast<size_t>(e)] = has_empty_text(rules, rules.node(e), nodes, known);
    for (size_t r = 0; r < known.size(); ++r) {
      const Expr body = rules.rules()[r].body;
      if (known[r] || body < 0 || !nodes[static_cast<size_t>(body)]) continue;
      known[r] = 1;
      changed = true;
    }
  }
  return known;
}

Nfa make_nfa(const Rules& rules, RuleId rule, const std::vector<char>& with_empty_text, int64_t& steps_left) {
  return NfaBuilder(rules, with_empty_text, steps_left).build(rule);
}

}  // namespace gpt::grammar
