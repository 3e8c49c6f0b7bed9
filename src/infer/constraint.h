#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace gpt {

// Restricts the output of one sequence, token by token.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // Sets the bits of the tokens that may come next and clears all other bits; token i is bit i % 64 of word
  // i / 64. remaining: number of tokens that the output may still have, including this one, >= 1. end_ids:
  // tokens that end the sequence, allowed only where the output may end. Sets no bit if no token is allowed.
  // Throws Error if a limit is exceeded.
  virtual void allow(int64_t remaining, std::span<const int32_t> end_ids, std::span<uint64_t> allowed) = 0;

  // Appends a token to the output. Throws Error if the token is not allowed.
  virtual void accept(int32_t id) = 0;

  // may_end: whether the output may end here. complete: whether it must end, since no token is allowed.
  virtual bool may_end() const = 0;
  virtual bool complete() const = 0;

  // Removes the last n tokens. Supports at least the last 64.
  virtual void rollback(int64_t n) = 0;

  virtual std::unique_ptr<Constraint> clone() const = 0;
};

}  // namespace gpt
