#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"
#include "grammar/limits.h"

namespace gpt::grammar {

// Maximum size of a repetition in which every iteration is a copy of the repeated expression. In a larger
// repetition, every iteration calls a rule.
inline constexpr int64_t kMostCopied = 32768;

// Handles of an expression and of a rule in a Rules object.
using Expr = int32_t;
using RuleId = int32_t;

// A grammar under construction, made of rules with expressions over bytes. The front ends create the rules,
// and `build_automaton` reads them. Expressions are immutable and can be used in several places. Throws Error
// beyond the limits.
class Rules {
 public:
  explicit Rules(const Limits& limits) : limits_(limits) {}
  const Limits& limits() const { return limits_; }

  Expr nothing();  // matches only the empty string
  Expr never();    // matches nothing
  Expr text(std::string_view bytes);
  Expr byte_range(uint8_t first, uint8_t last);
  Expr code_points(const CodePointSet& set);  // matches one character of the set, in UTF-8
  Expr sequence(std::span<const Expr> parts);
  Expr sequence(std::initializer_list<Expr> parts) { return sequence({parts.begin(), parts.size()}); }
  Expr choice(std::span<const Expr> options);
  Expr choice(std::initializer_list<Expr> options) { return choice({options.begin(), options.size()}); }
  // Matches `part` from min to max times. max = -1 means no limit. Throws Error if a count is too large. The
  // error message begins with `what`.
  Expr repeat(Expr part, int64_t min, int64_t max, std::string_view what);
  // Throws the same Error as `repeat` if a repetition count is too large.
  void check_repetition(int64_t rounds, std::string_view what) const;
  Expr optional(Expr part);
  Expr any_number(Expr part);

  // Declares a rule. The rule must be defined later, exactly once. The name appears in messages.
  RuleId declare(std::string name);
  void define(RuleId rule, Expr body);
  Expr call(RuleId rule);

  // A nondeterministic automaton whose edges are labeled with expressions. State 0 is the start state.
  struct GraphEdge {
    int32_t from, to;  // states of the graph; `to` may be kGraphEnd
    Expr label;
  };
  static constexpr int32_t kGraphEnd = -1;
  Expr graph(std::span<const GraphEdge> edges);

  // The following declarations are used by build_automaton.
  enum class Kind : uint8_t { text, byte_range, sequence, choice, repeat, call, graph };
  struct Node {
    Kind kind;
    int16_t depth = 1;
    int32_t size = 1;             // approximate size of its automaton
    int64_t first = 0, last = 0;  // index range in text_, parts_ or edges_; byte range; min and max; or rule
    Expr part = -1;               // operand of a repetition
  };
  const Node& node(Expr e) const { return nodes_[static_cast<size_t>(e)]; }
  int64_t size() const { return std::ssize(nodes_); }
  std::string_view text_of(const Node& n) const;
  std::span<const Expr> parts_of(const Node& n) const;
  std::span<const GraphEdge> edges_of(const Node& n) const;
  struct Rule {
    std::string name;
    Expr body = -1;  // -1 means not defined
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
