#include "grammar/grammar_cache.h"

#include "grammar/grammar.h"

namespace gpt::grammar {

GrammarPtr compile(const GrammarSource& source, const Limits& limits) {
  switch (source.kind) {
    case GrammarSource::Kind::gbnf:
      return compile_gbnf(source.text, limits);
    case GrammarSource::Kind::regex:
      return compile_regex(source.text, limits);
    case GrammarSource::Kind::json_schema:
      return compile_json_schema_text(source.text, source.frame, limits);
    case GrammarSource::Kind::json_object:
      break;
  }
  return compile_json_object(limits);
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
  if (auto masks = find()) return masks;  // another thread was faster
  used_.emplace_front(source, made);
  known_[source] = used_.begin();
  for (; used_.size() > options_.grammars; used_.pop_back())
    known_.erase(used_.back().first);
  return made;
}

}  // namespace gpt::grammar
