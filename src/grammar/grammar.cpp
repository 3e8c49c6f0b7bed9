#include "grammar/grammar.h"

#include <utility>

#include "grammar/front_ends.h"
#include "grammar/stacks.h"

namespace gpt::grammar {
namespace {

std::vector<uint32_t> ends_in_bytes(const Automaton& a) {
  std::vector<WeightedEdge> edges;
  for (int32_t s = 0; s < std::ssize(a.states); ++s)
    for (const Automaton::ByteEdge& edge : a.bytes_of(s))
      edges.push_back({s, edge.target, 1});
  return cheapest_ends(a, edges);
}

}  // namespace

Grammar::Grammar(Automaton automaton)
    : automaton_(std::move(automaton)), byte_ends_(ends_in_bytes(automaton_)) {
  Stacks(automaton_, byte_ends_).begin();  // throws Error if the start position has too many items
}

bool Grammar::matches(std::string_view text) const {
  Stacks stacks(automaton_, byte_ends_);
  Stacks::Position at = stacks.begin();
  for (const char c : text)
    if (at != Stacks::kDead) at = stacks.step(at, static_cast<uint8_t>(c));
  return at != Stacks::kDead && stacks.may_end(at);
}

bool Grammar::begins(std::string_view text) const {
  Stacks stacks(automaton_, byte_ends_);
  Stacks::Position at = stacks.begin();
  for (const char c : text)
    if (at != Stacks::kDead) at = stacks.step(at, static_cast<uint8_t>(c));
  return at != Stacks::kDead;
}

GrammarPtr compile_gbnf(std::string_view text, const Limits& limits) {
  Rules rules(limits);
  const RuleId root = gbnf_rule(rules, text);
  return std::make_shared<const Grammar>(build_automaton(rules, root));
}

GrammarPtr compile_regex(std::string_view pattern, const Limits& limits) {
  Rules rules(limits);
  const RuleId root = regex_rule(rules, pattern);
  return std::make_shared<const Grammar>(build_automaton(rules, root));
}

GrammarPtr compile_json_schema(const nlohmann::ordered_json& schema, const SchemaFrame& frame,
                               const Limits& limits) {
  Rules rules(limits);
  const RuleId root = json_schema_rule(rules, schema, frame);
  return std::make_shared<const Grammar>(build_automaton(rules, root));
}

GrammarPtr compile_json_schema_text(std::string_view text, const SchemaFrame& frame, const Limits& limits) {
  Rules rules(limits);
  const RuleId root = json_schema_text_rule(rules, text, frame);
  return std::make_shared<const Grammar>(build_automaton(rules, root));
}

GrammarPtr compile_json_object(const Limits& limits) {
  Rules rules(limits);
  const RuleId root = json_object_rule(rules);
  return std::make_shared<const Grammar>(build_automaton(rules, root));
}

}  // namespace gpt::grammar
