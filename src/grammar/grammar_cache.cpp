#include "grammar/grammar_cache.h"

#include <algorithm>

#include "grammar/front_ends.h"

namespace gpt::grammar {

namespace {

RuleId rule_of(Rules& rules, const GrammarSource& source) {
  switch (source.kind) {
    case GrammarSource::Kind::gbnf:
      return gbnf_rule(rules, source.text);
    case GrammarSource::Kind::regex:
      return regex_rule(rules, source.text);
    case GrammarSource::Kind::json_schema:
      return json_schema_text_rule(rules, source.text, source.frame);
    case GrammarSource::Kind::json_object:
      break;
  }
  return json_object_rule(rules);
}

}  // namespace

// Not defaulted, because clang 14 cannot default the comparison of a class that contains a vector of the same
// class.
std::strong_ordering GrammarSource::operator<=>(const GrammarSource& other) const {
  if (const auto order = kind <=> other.kind; order != 0) return order;
  if (const auto order = text <=> other.text; order != 0) return order;
  if (const auto order = frame <=> other.frame; order != 0) return order;
  return std::lexicographical_compare_three_way(others.begin(), others.end(), other.others.begin(),
                                                other.others.end());
}

GrammarPtr compile(const GrammarSource& source, const Limits& limits) {
  Rules rules(limits);
  RuleId root = rule_of(rules, source);
  if (!source.others.empty()) {
    std::vector<Expr> options = {rules.call(root)};
    for (const GrammarSource& other : source.others)
      options.push_back(rules.call(rule_of(rules, other)));
    root = rules.declare("response");
    rules.define(root, rules.choice(options));
  }
  return std::make_shared<const Grammar>(build_automaton(rules, root));
}

GrammarCache::GrammarCache(std::shared_ptr<const Vocabulary> vocabulary)
    : GrammarCache(std::move(vocabulary), Options{}) {}

GrammarCache::GrammarCache(std::shared_ptr<const Vocabulary> vocabulary, Options options)
    : vocabulary_(std::move(vocabulary)), options_(options) {}

std::shared_ptr<TokenMasks> GrammarCache::masks(const GrammarSource& source) {
  const auto find = [&]() -> std::shared_ptr<TokenMasks> {
    const auto known = known_.find(source);
    if (known == known_.end()) return nullptr;
    used_.splice(used_.begin(), used_, known->second);
    return used_.front().second;
  };
  {
    const std::lock_guard lock(mutex_);
    if (auto masks = find()) return masks;
  }
  auto made =
      std::make_shared<TokenMasks>(compile(source, options_.limits), vocabulary_, options_.mask_bytes);
  const std::lock_guard lock(mutex_);
  if (auto masks = find()) return masks;  // another thread has compiled the same grammar
  used_.emplace_front(source, made);
  known_[source] = used_.begin();
  for (; used_.size() > options_.grammars; used_.pop_back())
    known_.erase(used_.back().first);
  return made;
}

}  // namespace gpt::grammar
