#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

constexpr int64_t kMostProposals = 64;  // for a sequence in a step

// Guesses how sequences go on. A guess costs time where it is wrong, and never changes a result: the model
// draws every token itself.
class Proposer {
 public:
  virtual ~Proposer() = default;

  // A sequence, in a slot of the engine's. From one call to the next its ids only grow, until `forget`.
  struct Ask {
    int slot = 0;
    std::span<const int32_t> ids = {};       // all of it: prompt and output
    int64_t most = 0;                        // tokens to propose
    std::vector<int32_t>* result = nullptr;  // they are appended here
  };
  // Whether `propose` may find something.
  virtual bool has(const Ask& ask) = 0;
  // Appends up to `most` >= 1 tokens to each result, the likely next ones in their order.
  virtual void propose(std::span<const Ask> asks) = 0;
  // The slot's sequence has left it.
  virtual void forget(int slot) = 0;
};

}  // namespace gpt
