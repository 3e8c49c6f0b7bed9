#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace gpt {

// Restricts the output of one sequence, token by token.
class Constraint {
 public:
  virtual ~Constraint() = default;

  // Determines the tokens that may come next: sets their bits in `allowed` and clears all other bits. Token i
  // corresponds to bit i % 64 of word i / 64. `remaining` (>= 1) is the number of tokens that may still be
  // generated, including the next token. `end_ids` are tokens that end the sequence; they are allowed only if
  // the output may end here. If no token is allowed, all bits are cleared. Throws Error if the constraint
  // exceeds a limit of its implementation.
  virtual void allow(int64_t remaining, std::span<const int32_t> end_ids, std::span<uint64_t> allowed) = 0;

  // Appends a token to the output. Throws Error if the token is not allowed.
  virtual void accept(int32_t id) = 0;

  // `may_end` returns true if the output may end here. `complete` returns true if the output must end here
  // because no token is allowed.
  virtual bool may_end() const = 0;
  virtual bool complete() const = 0;

  // Removes the last n tokens from the output. Implementations must support n up to at least 64.
  virtual void rollback(int64_t n) = 0;

  virtual std::unique_ptr<Constraint> clone() const = 0;
};

}  // namespace gpt
