#pragma once

#include <compare>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/token_masks.h"

namespace gpt::grammar {

// The source of a grammar, as given in a request.
struct GrammarSource {
  enum class Kind : uint8_t { gbnf, regex, json_schema, json_object };
  Kind kind;
  std::string text = {};                   // source text; empty for json_object
  SchemaFrame frame = {};                  // only used for json_schema
  std::vector<GrammarSource> others = {};  // alternatives to this grammar; the output must match one of them

  std::strong_ordering operator<=>(const GrammarSource& other) const;
  bool operator==(const GrammarSource& other) const { return (*this <=> other) == 0; }
};

// Compiles the source of a grammar. Throws the errors of the functions in grammar.h.
GrammarPtr compile(const GrammarSource& source, const Limits& limits = {});

// A thread-safe cache of the most recently used grammars of one model, with their token masks.
class GrammarCache {
 public:
  struct Options {
    size_t grammars = 16;                  // maximum number of cached grammars
    size_t mask_bytes = size_t{32} << 20;  // maximum size of the masks of one grammar
    Limits limits = {};
  };
  explicit GrammarCache(std::shared_ptr<const Vocabulary> vocabulary);
  GrammarCache(std::shared_ptr<const Vocabulary> vocabulary, Options options);

  // Returns the token masks of a grammar. Compiles the grammar first if it is not cached, without holding the
  // lock. Throws the errors of `compile`. A grammar that fails to compile is not cached.
  std::shared_ptr<TokenMasks> masks(const GrammarSource& source);

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  Options options_;
  std::mutex mutex_;
  using Entry = std::pair<GrammarSource, std::shared_ptr<TokenMasks>>;
  std::list<Entry> used_;  // most recently used first
  std::map<GrammarSource, std::list<Entry>::iterator> known_;
};

}  // namespace gpt::grammar
