#include "grammar/rules.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gpt::grammar {
namespace {

// Maximum depth of an expression. Expressions are processed recursively, so their depth must be limited. A
// front end may accept input that is nested more deeply.
constexpr int kMostDepth = 2000;

int32_t limited(int64_t size) {
  return static_cast<int32_t>(std::min<int64_t>(size, int64_t{1} << 30));
}

}  // namespace

Expr Rules::add(Node node) {
  if (size() >= limits_.max_expressions)
    fail("grammar: more than {} expressions; simplify it", limits_.max_expressions);
  if (node.depth > kMostDepth) fail("grammar: expressions are nested deeper than {} levels", kMostDepth);
  nodes_.push_back(node);
  return static_cast<Expr>(size() - 1);
}

Expr Rules::list(Kind kind, std::span<const Expr> parts) {
  Node node{.kind = kind, .first = std::ssize(parts_)};
  int64_t size = 1;
  for (const Expr part : parts) {
    parts_.push_back(part);
    size += this->node(part).size;
    node.depth = std::max<int16_t>(node.depth, static_cast<int16_t>(this->node(part).depth + 1));
  }
  if (std::ssize(parts_) > limits_.max_expressions)
    fail("grammar: more than {} expressions; simplify it", limits_.max_expressions);
  node.size = limited(size);
  node.last = std::ssize(parts_);
  return add(node);
}

Expr Rules::nothing() {
  return text("");
}

Expr Rules::never() {
  return list(Kind::choice, {});
}

Expr Rules::text(std::string_view bytes) {
  Node node{.kind = Kind::text, .size = limited(std::ssize(bytes)), .first = std::ssize(text_)};
  text_ += bytes;
  node.last = std::ssize(text_);
  return add(node);
}

Expr Rules::byte_range(uint8_t first, uint8_t last) {
  return add({.kind = Kind::byte_range, .first = first, .last = last});
}

Expr Rules::code_points(const CodePointSet& set) {
  std::vector<Expr> forms;
  for (const Utf8Ranges& form : utf8_ranges(set)) {
    std::vector<Expr> bytes;
    for (int i = 0; i < form.length; ++i)
      bytes.push_back(byte_range(form.bytes[i].first, form.bytes[i].last));
    forms.push_back(sequence(bytes));
  }
  return choice(forms);
}

Expr Rules::sequence(std::span<const Expr> parts) {
  return parts.size() == 1 ? parts[0] : list(Kind::sequence, parts);
}

Expr Rules::choice(std::span<const Expr> options) {
  return options.size() == 1 ? options[0] : list(Kind::choice, options);
}

void Rules::check_repetition(int64_t rounds, std::string_view what) const {
  if (rounds > limits_.max_repetition)
    fail("{}: expected at most {}, found {}", what, limits_.max_repetition, rounds);
}

Expr Rules::repeat(Expr part, int64_t min, int64_t max, std::string_view what) {
  const int64_t rounds = std::max(min, max);
  check_repetition(rounds, what);
  if (max == 0) return nothing();
  if (rounds > 1 && rounds * node(part).size > kMostCopied) {
    const RuleId rule = declare("repetition");
    define(rule, part);
    part = call(rule);
  }
  const int16_t depth = static_cast<int16_t>(node(part).depth + 1);
  const int32_t size = limited(node(part).size * std::max<int64_t>(rounds, 1));
  return add({.kind = Kind::repeat, .depth = depth, .size = size, .first = min, .last = max, .part = part});
}

Expr Rules::optional(Expr part) {
  return choice({part, nothing()});
}

Expr Rules::any_number(Expr part) {
  return repeat(part, 0, -1, "*");
}

Expr Rules::graph(std::span<const GraphEdge> edges) {
  Node node{.kind = Kind::graph, .first = std::ssize(edges_)};
  int64_t size = 1;
  for (const GraphEdge& edge : edges) {
    size += this->node(edge.label).size;
    node.depth = std::max<int16_t>(node.depth, static_cast<int16_t>(this->node(edge.label).depth + 1));
  }
  edges_.insert(edges_.end(), edges.begin(), edges.end());
  if (std::ssize(edges_) > limits_.max_expressions)
    fail("grammar: more than {} expressions; simplify it", limits_.max_expressions);
  node.size = limited(size);
  node.last = std::ssize(edges_);
  return add(node);
}

RuleId Rules::declare(std::string name) {
  if (std::ssize(rules_) >= limits_.max_rules)
    fail("grammar: more than {} rules; simplify it", limits_.max_rules);
  rules_.push_back({std::move(name), -1});
  return static_cast<RuleId>(rules_.size() - 1);
}

void Rules::define(RuleId rule, Expr body) {
  Rule& r = rules_[static_cast<size_t>(rule)];
  GPT_ASSERT(r.body < 0);
  r.body = body;
}

Expr Rules::call(RuleId rule) {
  return add({.kind = Kind::call, .first = rule});
}

std::string_view Rules::text_of(const Node& n) const {
  return std::string_view(text_).substr(static_cast<size_t>(n.first), static_cast<size_t>(n.last - n.first));
}

std::span<const Rules::GraphEdge> Rules::edges_of(const Node& n) const {
  return std::span(edges_).subspan(static_cast<size_t>(n.first), static_cast<size_t>(n.last - n.first));
}

std::span<const Expr> Rules::parts_of(const Node& n) const {
  return std::span(parts_).subspan(static_cast<size_t>(n.first), static_cast<size_t>(n.last - n.first));
}

}  // namespace gpt::grammar
