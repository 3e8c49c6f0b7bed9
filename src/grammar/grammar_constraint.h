#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "grammar/stacks.h"
#include "grammar/token_masks.h"
#include "infer/constraint.h"

namespace gpt::grammar {

// Output that fits a grammar. While there are tokens left for it, only those are allowed after which the rest
// of an answer certainly fits into what then remains: so the output is a whole answer however few tokens
// there are, if `certain_budget` are. With fewer, those are allowed that come nearest to an end.
//
// Its memory is bounded, and all of it is its own but for the masks: a sequence may use it on any one thread.
class GrammarConstraint final : public Constraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<TokenMasks> masks);
  GrammarConstraint(const GrammarConstraint& other);
  GrammarConstraint& operator=(const GrammarConstraint&) = delete;

  void allow(int64_t remaining, std::span<const int32_t> end_ids, std::span<uint64_t> allowed) override;
  void accept(int32_t id) override;
  bool may_end() const override { return stacks_->may_end(position()); }
  bool complete() const override { return may_end() && stacks_->items(position()).empty(); }
  void rollback(int64_t n) override;
  std::unique_ptr<Constraint> clone() const override { return std::make_unique<GrammarConstraint>(*this); }

  // A number of tokens, the ending one included, with which the output can certainly be a whole answer, if no
  // token of text ends the sequence; nothing where the vocabulary does not make that sure.
  std::optional<int64_t> certain_budget() const;

 private:
  Stacks::Position position() const { return history_.back(); }
  // Sets bits of tokens after which the rest costs at most `limit`; returns the least that it costs after
  // any.
  uint32_t collect(uint32_t limit, std::span<uint64_t> allowed);
  const std::vector<TokenLayer>& layers_of(Stacks::Position position);
  void add_layers(Stacks::Item item, LayerBuilder& layers);
  void forget_layers();
  void keep_small();

  std::shared_ptr<TokenMasks> masks_;
  std::unique_ptr<Stacks> stacks_;
  std::vector<Stacks::Position> history_;                                 // after each of the last tokens
  std::unordered_map<Stacks::Position, std::vector<TokenLayer>> layers_;  // of positions met before
  size_t layer_bytes_ = 0;
  std::vector<Stacks::Position> path_;
  size_t most_bytes_;  // of stacks_, before what is no longer needed goes
};

// A constraint for answers of at most `budget` tokens. Throws invalid_argument for max_tokens when no answer
// has so few; a budget that some answer fits into is never refused.
std::unique_ptr<Constraint> make_constraint(const std::shared_ptr<TokenMasks>& masks, int64_t budget);

}  // namespace gpt::grammar
