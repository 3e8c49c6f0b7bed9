#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/stacks.h"
#include "grammar/token_layers.h"
#include "grammar/vocabulary.h"

namespace gpt::grammar {

// The tokens that are allowed in one state of an automaton, if only the rule of the state is considered.
struct StateMask {
  // Tokens whose bytes the rule alone can read, up to its end at most. The tokens are grouped by the
  // remaining distance to the end of the rule.
  std::vector<TokenLayer> layers;  // sorted by increasing distance
  // Inner nodes of the vocabulary tree at which the rule can end. After such a node, the rest of a token is
  // read by the callers of the rule.
  std::vector<int32_t> pops;
};

// The token masks of a grammar for a vocabulary. The mask of a state is computed when it is first needed, and
// is cached within a memory limit. Thread-safe and shared by all sequences that use the grammar.
class TokenMasks {
 public:
  static constexpr size_t kMemory = size_t{64} << 20;  // memory limit for the masks

  TokenMasks(GrammarPtr grammar, std::shared_ptr<const Vocabulary> vocabulary, size_t memory = kMemory);

  const Grammar& grammar() const { return *grammar_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // Returns, for each state, a number of tokens that is enough to reach the end of its rule.
  const std::vector<uint32_t>& token_ends() const { return token_ends_; }

  std::shared_ptr<const StateMask> mask_of(int32_t state);

  // Returns a lower bound for the number of tokens in an output, without the end token. Usually, an output
  // with this number of tokens exists. Throws Error if the vocabulary has no tokens for any output of the
  // grammar.
  int64_t shortest();

 private:
  std::shared_ptr<const StateMask> make_mask(int32_t state);

  GrammarPtr grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<uint32_t> token_ends_;
  const size_t memory_;

  std::mutex mutex_;  // protects the following members
  std::optional<Stacks> stacks_;
  struct Entry {
    std::shared_ptr<const StateMask> mask;
    std::list<int32_t>::iterator place;
    size_t bytes;
  };
  std::unordered_map<int32_t, Entry> masks_;
  std::list<int32_t> used_;  // most recently used first
  size_t bytes_ = 0;
  std::optional<int64_t> shortest_;
};

// Visits the nodes below `top` in the vocabulary tree, starting from the parser position `from`. Calls
// f(node, position) for each node whose bytes the grammar can read. If f returns false, the nodes below the
// node are skipped.
template <class F>
void walk_tokens(const Vocabulary& vocabulary, Stacks& stacks, int32_t top, Stacks::Position from,
                 std::vector<Stacks::Position>& path, F&& f) {
  const auto nodes = vocabulary.nodes();
  const size_t base = nodes[static_cast<size_t>(top)].depth;
  path.resize(vocabulary.longest() + 1);
  path[base] = from;
  const int32_t end = nodes[static_cast<size_t>(top)].end;
  for (int32_t at = top + 1; at < end;) {
    const Vocabulary::Node& node = nodes[static_cast<size_t>(at)];
    const Stacks::Position position = stacks.step(path[node.depth - size_t{1}], node.byte);
    path[node.depth] = position;
    at = position != Stacks::kDead && f(at, position) ? at + 1 : node.end;
  }
}

}  // namespace gpt::grammar
