#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/limits.h"

namespace gpt::grammar {

// A repetition whose rounds would be larger together calls a rule for each instead of holding a copy of it.
inline constexpr int64_t kMostCopied = 32768;

// Name an expression and a rule of a Rules.
using Expr = int32_t;
using RuleId = int32_t;

// A grammar while it is written down: rules made of expressions over bytes. Front ends write it,
// `build_automaton` reads it. Expressions never change, and may be used in many places. Throws Error beyond
// the limits.
class Rules {
 public:
  explicit Rules(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  Expr nothing();  // the empty text alone
  Expr never();    // no text at all
  Expr text(std::string_view bytes);
  Expr byte_range(uint8_t first, uint8_t last);
  Expr code_points(const CodePointSet& set);  // one character of the set, in UTF-8
  Expr sequence(std::span<const Expr> parts);
  Expr sequence(std::initializer_list<Expr> parts) { return sequence({parts.begin(), parts.size()}); }
  Expr choice(std::span<const Expr> options);
  Expr choice(std::initializer_list<Expr> options) { return choice({options.begin(), options.size()}); }
  // From min to max times; max -1: any number of times. `what` names it in the Error for too large numbers.
  Expr repeat(Expr part, int64_t min, int64_t max, std::string_view what);
  // Throws the Error of `repeat` for a number of repetitions.
  void check_repetition(int64_t rounds, std::string_view what) const;
  Expr optional(Expr part);
  Expr any_number(Expr part);

  // A rule, to be defined later, and once. Names are for messages.
  RuleId declare(std::string name);
  void define(RuleId rule, Expr body);
  Expr call(RuleId rule);

  // A nondeterministic automaton whose edges read expressions. It starts at state 0.
  struct GraphEdge {
    int32_t from, to;  // states; `to` may be kGraphEnd
    Expr label;
  };
  static constexpr int32_t kGraphEnd = -1;
  Expr graph(std::span<const GraphEdge> edges);

  // What build_automaton reads.
  enum class Kind : uint8_t { text, byte_range, sequence, choice, repeat, call, graph };
  struct Node {
    Kind kind;
    int16_t depth = 1;
    int32_t size = 1;             // of its automaton, about
    int64_t first = 0, last = 0;  // of text_, parts_ or edges_; the bytes of a range; min and max; the rule
    Expr part = -1;               // of a repetition
  };
  const Node& node(Expr e) const { return nodes_[static_cast<size_t>(e)]; }
  int64_t size() const { return std::ssize(nodes_); }
  std::string_view text_of(const Node& n) const;
  std::span<const Expr> parts_of(const Node& n) const;
  std::span<const GraphEdge> edges_of(const Node& n) const;
  struct Rule {
    std::string name;
    Expr body = -1;  // -1: not defined
  };
  const std::vector<Rule>& rules() const { return rules_; }

 private:
  Expr add(Node node);
  Expr list(Kind kind, std::span<const Expr> parts);

  Limits limits_;
  std::vector<Node> nodes_;
  std::vector<Expr> parts_;
  std::vector<GraphEdge> edges_;
  std::string text_;
  std::vector<Rule> rules_;
};

}  // namespace gpt::grammar
