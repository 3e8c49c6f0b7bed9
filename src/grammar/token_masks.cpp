#include "grammar/token_masks.h"

#include <algorithm>

#include "base/error.h"
#include "grammar/shortest.h"

namespace gpt::grammar {
namespace {

// Memory limit for parser positions. Computing a mask creates such positions. All positions are dropped when
// the limit is exceeded.
constexpr size_t kMaskStacksMemory = size_t{32} << 20;

// Returns the paths that single tokens can follow. A token of one byte gives a path. A longer token gives a
// path if each state along the path allows only one next byte.
std::vector<WeightedEdge> token_edges(const Automaton& a, const Vocabulary& vocabulary) {
  std::vector<int32_t> bytes(256);
  for (size_t b = 0; b < 256; ++b)
    bytes[b] = vocabulary.child(0, static_cast<uint8_t>(b));
  const auto is_token = [&](int32_t node) { return node >= 0 && vocabulary.has_token_at(node); };
  std::vector<WeightedEdge> edges;
  const auto follow = [&](int32_t from, int32_t state, int32_t node) {
    while (node >= 0) {
      if (is_token(node)) edges.push_back({from, state, 1});
      const auto next = a.bytes_of(state);
      if (next.size() != 1 || next[0].first != next[0].last) return;
      node = vocabulary.child(node, next[0].first);
      state = next[0].target;
    }
  };
  for (int32_t s = 0; s < std::ssize(a.states); ++s) {
    for (const Automaton::ByteEdge& edge : a.bytes_of(s)) {
      if (edge.first == edge.last) {
        follow(s, edge.target, bytes[edge.first]);
      } else if (std::any_of(bytes.begin() + edge.first, bytes.begin() + edge.last + 1, is_token)) {
        edges.push_back({s, edge.target, 1});
      }
    }
  }
  return edges;
}

size_t bytes_of(const StateMask& mask) {
  return 256 + mask.pops.size() * sizeof(int32_t) + bytes_of(mask.layers);
}

}  // namespace

TokenMasks::TokenMasks(GrammarPtr grammar, std::shared_ptr<const Vocabulary> vocabulary, size_t memory)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      token_ends_(cheapest_ends(grammar_->automaton(), token_edges(grammar_->automaton(), *vocabulary_))),
      memory_(memory) {}

std::shared_ptr<const StateMask> TokenMasks::mask_of(int32_t state) {
  const std::lock_guard lock(mutex_);
  if (const auto known = masks_.find(state); known != masks_.end()) {
    used_.splice(used_.begin(), used_, known->second.place);
    return known->second.mask;
  }
  std::shared_ptr<const StateMask> mask = make_mask(state);
  used_.push_front(state);
  const size_t bytes = bytes_of(*mask);
  masks_[state] = {mask, used_.begin(), bytes};
  for (bytes_ += bytes; bytes_ > memory_ && used_.size() > 1; used_.pop_back()) {
    const auto oldest = masks_.find(used_.back());
    bytes_ -= oldest->second.bytes;
    masks_.erase(oldest);
  }
  return mask;
}

std::shared_ptr<const StateMask> TokenMasks::make_mask(int32_t state) {
  if (!stacks_ || stacks_->bytes() > kMaskStacksMemory) stacks_.emplace(grammar_->automaton(), token_ends_);
  LayerBuilder layers(vocabulary_->size());
  auto mask = std::make_shared<StateMask>();
  std::vector<Stacks::Position> path;
  const auto nodes = vocabulary_->nodes();
  walk_tokens(*vocabulary_, *stacks_, 0, stacks_->within(state), path,
              [&](int32_t node, Stacks::Position position) {
                const auto ids = vocabulary_->ids_at(node);
                if (!ids.empty()) layers.add(stacks_->distance(position), ids);
                if (stacks_->may_end(position) && nodes[static_cast<size_t>(node)].end > node + 1)
                  mask->pops.push_back(node);
                return true;
              });
  mask->layers = layers.finish();
  return mask;
}

int64_t TokenMasks::shortest() {
  const std::lock_guard lock(mutex_);
  if (!shortest_) shortest_ = shortest_answer(*grammar_, *vocabulary_, token_ends_);
  return *shortest_;
}

}  // namespace gpt::grammar
