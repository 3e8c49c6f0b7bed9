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

// Constrains the output of a sequence to a grammar. A token is only allowed if the rest of the output still
// fits into the remaining token budget. The output is therefore complete if the budget is at least
// `certain_budget` tokens. If no token meets this condition, only the tokens with the cheapest completion are
// allowed.
//
// The memory of a constraint is bounded. Sequences only share the masks, so they can run on different
// threads.
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

  // Returns a number of tokens, including the end token, that is enough for a complete output if no text
  // token ends the sequence. Returns nullopt if the tokens of the vocabulary cannot always complete the
  // output.
  std::optional<int64_t> certain_budget() const;

 private:
  Stacks::Position position() const { return history_.back(); }
  // Sets the bits of the tokens after which the cost of completing the output is at most `limit`. Returns the
  // minimum cost of completing the output after one more token.
  uint32_t collect(uint32_t limit, std::span<uint64_t> allowed);
  const std::vector<TokenLayer>& layers_of(Stacks::Position position);
  void add_layers(Stacks::Item item, LayerBuilder& layers);
  void forget_layers();
  void keep_small();

  std::shared_ptr<TokenMasks> masks_;
  std::unique_ptr<Stacks> stacks_;
  std::vector<Stacks::Position> history_;                                 // positions after recent tokens
  std::unordered_map<Stacks::Position, std::vector<TokenLayer>> layers_;  // allowed tokens, by position
  size_t layer_bytes_ = 0;
  std::vector<Stacks::Position> path_;
  size_t most_bytes_;  // if stacks_ becomes larger than this, unused positions are dropped
};

// Creates a constraint for outputs of at most `budget` tokens. Throws invalid_argument for max_tokens if the
// grammar has no output that fits into the budget.
std::unique_ptr<Constraint> make_constraint(const std::shared_ptr<TokenMasks>& masks, int64_t budget);

}  // namespace gpt::grammar
