#include "grammar/shortest.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "grammar/token_masks.h"

namespace gpt::grammar {
namespace {

constexpr int64_t kMostSteps = 4 * 1000 * 1000;  // bytes read in some tens of milliseconds
constexpr size_t kMostMemory = size_t{64} << 20;

int64_t tokens_for(uint32_t bytes, size_t longest) {
  return (int64_t{bytes} + static_cast<int64_t>(longest) - 1) / static_cast<int64_t>(longest);
}

}  // namespace

// Runs a breadth-first search over parser positions: first all positions after one token, then all positions
// after two tokens, and so on. The search stops when the output may end at a position. It drops positions
// from which every output has at least `known` tokens.
int64_t shortest_answer(const Grammar& grammar, const Vocabulary& vocabulary,
                        const std::vector<uint32_t>& token_ends) {
  Stacks bytes(grammar.automaton(), grammar.byte_ends());
  const Stacks::Position begin = bytes.begin();
  if (bytes.may_end(begin)) return 0;
  uint32_t known = kNoEnd;  // number of tokens of a known output
  {
    Stacks tokens(grammar.automaton(), token_ends);
    known = tokens.distance(tokens.begin());
  }
  const size_t longest = std::max<size_t>(vocabulary.longest(), 1);
  std::vector<Stacks::Position> front{begin}, path;
  std::unordered_set<Stacks::Position> seen{begin};
  int64_t steps_left = kMostSteps;
  for (int64_t count = 0; !front.empty(); ++count) {  // `front` contains the positions after `count` tokens
    std::vector<Stacks::Position> next;
    int64_t least = known;
    for (const Stacks::Position position : front)
      least = std::min(least, count + std::max<int64_t>(1, tokens_for(bytes.distance(position), longest)));
    if (count + 1 >= known) return known;
    bool ends = false;
    for (const Stacks::Position position : front) {
      walk_tokens(vocabulary, bytes, 0, position, path, [&](int32_t node, Stacks::Position at) {
        --steps_left;
        if (vocabulary.has_token_at(node) && count + 1 + tokens_for(bytes.distance(at), longest) < known) {
          ends |= bytes.may_end(at);
          if (seen.insert(at).second) next.push_back(at);
        }
        return steps_left > 0;
      });
      if (ends) return count + 1;
      if (steps_left <= 0 || bytes.bytes() > kMostMemory) return least;
    }
    front = std::move(next);
  }
  if (known != kNoEnd) return known;
  fail("grammar: no sequence of the model's tokens matches it");
}

}  // namespace gpt::grammar
