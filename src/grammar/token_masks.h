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

// The tokens that can be read from one state of an automaton, as far as its rule alone decides.
struct StateMask {
  // Tokens that stay within the rule, or end with it, by what it then costs to get to the rule's end.
  std::vector<TokenLayer> layers;  // by rising distance
  // Nodes of the vocabulary's tree, with children, at which the rule can end: what follows is read by the
  // callers.
  std::vector<int32_t> pops;
};

// A grammar over a vocabulary: which tokens may come, state by state, found when first asked for and kept
// within a bound of memory. Shared by all sequences with this grammar, of any thread.
class TokenMasks {
 public:
  static constexpr size_t kMemory = size_t{64} << 20;  // of masks

  TokenMasks(GrammarPtr grammar, std::shared_ptr<const Vocabulary> vocabulary, size_t memory = kMemory);

  const Grammar& grammar() const { return *grammar_; }
  const Vocabulary& vocabulary() const { return *vocabulary_; }

  // Tokens in which each state's rule can certainly be ended.
  const std::vector<uint32_t>& token_ends() const { return token_ends_; }

  std::shared_ptr<const StateMask> mask_of(int32_t state);

  // No answer has fewer tokens than this, the ending one not counted; mostly there is one with as many.
  // Throws Error where the vocabulary has no tokens for any answer.
  int64_t shortest();

 private:
  std::shared_ptr<const StateMask> make_mask(int32_t state);

  GrammarPtr grammar_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  std::vector<uint32_t> token_ends_;
  const size_t memory_;

  std::mutex mutex_;  // of all that follows
  std::optional<Stacks> stacks_;
  struct Entry {
    std::shared_ptr<const StateMask> mask;
    std::list<int32_t>::iterator place;
    size_t bytes;
  };
  std::unordered_map<int32_t, Entry> masks_;
  std::list<int32_t> used_;  // the last one was used longest ago
  size_t bytes_ = 0;
  std::optional<int64_t> shortest_;
};

// Calls f(node, position) for the nodes of the tree below `top` that can be read from a position at it; f
// says whether to go on below the node.
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
