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

// Where a grammar comes from, as a request has it.
struct GrammarSource {
  enum class Kind : uint8_t { gbnf, regex, json_schema, json_object };
  Kind kind;
  std::string text = {};                   // of a json_object: none
  SchemaFrame frame = {};                  // of a json_schema
  std::vector<GrammarSource> others = {};  // grammars that an answer may fit instead

  std::strong_ordering operator<=>(const GrammarSource& other) const;
  bool operator==(const GrammarSource& other) const { return (*this <=> other) == 0; }
};

// Compiles it. Throws Error as the functions of grammar.h do.
GrammarPtr compile(const GrammarSource& source, const Limits& limits = {});

// The grammars of one model's requests with their masks, the last ones that were asked for. Any thread.
class GrammarCache {
 public:
  struct Options {
    size_t grammars = 16;                  // kept, at most
    size_t mask_bytes = size_t{32} << 20;  // of each
    Limits limits = {};
  };
  explicit GrammarCache(std::shared_ptr<const Vocabulary> vocabulary);
  GrammarCache(std::shared_ptr<const Vocabulary> vocabulary, Options options);

  // Compiles what it does not know, outside of its lock. Throws Error as `compile` does; that is not kept.
  std::shared_ptr<TokenMasks> masks(const GrammarSource& source);

 private:
  std::shared_ptr<const Vocabulary> vocabulary_;
  Options options_;
  std::mutex mutex_;
  using Entry = std::pair<GrammarSource, std::shared_ptr<TokenMasks>>;
  std::list<Entry> used_;  // the last one was used longest ago
  std::map<GrammarSource, std::list<Entry>::iterator> known_;
};

}  // namespace gpt::grammar
