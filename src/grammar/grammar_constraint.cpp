#include "grammar/grammar_constraint.h"

#include <algorithm>

#include "base/error.h"

namespace gpt::grammar {
namespace {

constexpr size_t kHistory = 65;  // number of positions, so that 64 tokens can be rolled back
constexpr size_t kStacksMemory = size_t{8} << 20;
constexpr size_t kLayersMemory = size_t{2} << 20;

void clear_bit(std::span<uint64_t> words, int32_t id) {
  words[static_cast<size_t>(id) / 64] &= ~(uint64_t{1} << (id % 64));
}

bool any_bit(std::span<const uint64_t> words) {
  return std::ranges::any_of(words, [](uint64_t word) { return word != 0; });
}

}  // namespace

GrammarConstraint::GrammarConstraint(std::shared_ptr<TokenMasks> masks)
    : masks_(std::move(masks)),
      stacks_(std::make_unique<Stacks>(masks_->grammar().automaton(), masks_->token_ends())),
      history_{stacks_->begin()},
      most_bytes_(kStacksMemory) {}

GrammarConstraint::GrammarConstraint(const GrammarConstraint& other)
    : masks_(other.masks_),
      stacks_(std::make_unique<Stacks>(masks_->grammar().automaton(), masks_->token_ends())),
      most_bytes_(other.most_bytes_) {
  for (const Stacks::Position position : other.history_)
    history_.push_back(other.stacks_->copy_to(*stacks_, position));
}

std::optional<int64_t> GrammarConstraint::certain_budget() const {
  const uint32_t tokens = stacks_->distance(position());
  return tokens == kNoEnd ? std::nullopt : std::optional(int64_t{tokens} + 1);
}

void GrammarConstraint::allow(int64_t remaining, std::span<const int32_t> end_ids,
                              std::span<uint64_t> allowed) {
  GPT_ASSERT(remaining >= 1 && std::ssize(allowed) * 64 >= masks_->vocabulary().size());
  keep_small();
  std::ranges::fill(allowed, 0);
  // The remaining budget must cover this token, the rest of the output and, if there are end tokens, one end
  // token.
  const int64_t rest = remaining - 1 - (end_ids.empty() ? 0 : 1);
  const auto limit = static_cast<uint32_t>(std::clamp<int64_t>(rest, 0, kNoEnd - 1));
  const uint32_t least = rest < 0 ? kNoEnd : collect(limit, allowed);
  const bool may_stop = may_end() && !end_ids.empty();
  if (!may_stop && !any_bit(allowed)) collect(rest < 0 ? collect(0, allowed) : least, allowed);
  for (const int32_t id : end_ids)
    may_stop ? set_bit(allowed, id) : clear_bit(allowed, id);
}

uint32_t GrammarConstraint::collect(uint32_t limit, std::span<uint64_t> allowed) {
  const std::vector<TokenLayer>& layers = layers_of(position());
  for (const TokenLayer& layer : layers) {
    if (layer.distance > limit) break;
    set_bits(layer, allowed);
  }
  return layers.empty() ? kNoEnd : layers.front().distance;
}

// Returns the tokens that are allowed at a position. The tokens are grouped by the cost of completing the
// output.
const std::vector<TokenLayer>& GrammarConstraint::layers_of(Stacks::Position position) {
  if (const auto known = layers_.find(position); known != layers_.end()) return known->second;
  LayerBuilder layers(masks_->vocabulary().size());
  const auto shown = stacks_->items(position);
  const std::vector<Stacks::Item> items(shown.begin(), shown.end());  // copied because steps reallocate the
                                                                      // items
  for (const Stacks::Item& item : items)
    add_layers(item, layers);
  if (layer_bytes_ > kLayersMemory) forget_layers();
  std::vector<TokenLayer>& known = layers_[position] = layers.finish();
  layer_bytes_ += 64 + bytes_of(known);
  return known;
}

void GrammarConstraint::add_layers(Stacks::Item item, LayerBuilder& layers) {
  const auto mask = masks_->mask_of(item.state);
  const uint32_t outside = stacks_->way_out(item.context);
  for (const TokenLayer& layer : mask->layers)
    layers.add(sum_of_distances(layer.distance, outside), layer);
  if (mask->pops.empty()) return;
  const Stacks::Position after = stacks_->after(item.context);
  if (after == Stacks::kDead || stacks_->items(after).empty()) return;
  for (const int32_t pop : mask->pops) {
    walk_tokens(masks_->vocabulary(), *stacks_, pop, after, path_, [&](int32_t node, Stacks::Position at) {
      const auto ids = masks_->vocabulary().ids_at(node);
      if (!ids.empty()) layers.add(stacks_->distance(at), ids);
      return true;
    });
  }
}

void GrammarConstraint::forget_layers() {
  layers_.clear();
  layer_bytes_ = 0;
}

void GrammarConstraint::accept(int32_t id) {
  const Vocabulary& vocabulary = masks_->vocabulary();
  const std::string_view bytes =
      id >= 0 && id < vocabulary.size() ? vocabulary.bytes_of(id) : std::string_view();
  Stacks::Position at = bytes.empty() ? Stacks::kDead : position();
  for (const char c : bytes)
    if (at != Stacks::kDead) at = stacks_->step(at, static_cast<uint8_t>(c));
  if (at == Stacks::kDead) fail("grammar: expected a token that the grammar allows, found token id {}", id);
  if (history_.size() >= 2 * kHistory)
    history_.erase(history_.begin(), history_.end() - static_cast<std::ptrdiff_t>(kHistory));
  history_.push_back(at);
}

void GrammarConstraint::rollback(int64_t n) {
  GPT_ASSERT(n >= 0 && n < std::ssize(history_));
  history_.resize(history_.size() - static_cast<size_t>(n));
}

// Once the stacks are too large, drops all positions except those in history_.
void GrammarConstraint::keep_small() {
  if (stacks_->bytes() < most_bytes_) return;
  auto fresh = std::make_unique<Stacks>(masks_->grammar().automaton(), masks_->token_ends());
  for (Stacks::Position& position : history_)
    position = stacks_->copy_to(*fresh, position);
  stacks_ = std::move(fresh);
  forget_layers();
  most_bytes_ = std::max(kStacksMemory, 2 * stacks_->bytes());
}

std::unique_ptr<Constraint> make_constraint(const std::shared_ptr<TokenMasks>& masks, int64_t budget) {
  auto constraint = std::make_unique<GrammarConstraint>(masks);
  const auto certain = constraint->certain_budget();
  if (!certain || budget < *certain) {
    const int64_t shortest = masks->shortest();
    if (budget < shortest)
      fail_parameter(
          "max_tokens",
          "expected at least {} tokens for the shortest response that matches the grammar, found {}",
          shortest, budget);
  }
  return constraint;
}

}  // namespace gpt::grammar
