#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace gpt {

// What the output of one sequence may be, token by token.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // Sets the bits of the tokens that may come next and clears all others; token i is bit i % 64 of word i
  // / 64. remaining: tokens that the output may still have, this one included, >= 1. end_ids end a sequence:
  // they may come where the output may end, and only there. No bit is set where nothing fits. Throws Error
  // beyond its limits.
  virtual void allow(int64_t remaining, std::span<const int32_t> end_ids, std::span<uint64_t> allowed) = 0;

  // Takes the next token of the output. Throws Error when it does not fit.
  virtual void accept(int32_t id) = 0;

  // Whether the output may end here, and whether it must: nothing fits behind it.
  virtual bool may_end() const = 0;
  virtual bool complete() const = 0;

  // Takes back the last n tokens; at least the last 64 can be.
  virtual void rollback(int64_t n) = 0;

  virtual std::unique_ptr<Constraint> clone() const = 0;
};

}  // namespace gpt
