#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace gpt {

constexpr int64_t kMostProposals = 64;  // maximum draft tokens per sequence and step

// Drafts the next tokens of sequences. A wrong draft costs time but never changes a result, because the model
// samples every token itself.
class Proposer {
 public:
  virtual ~Proposer() = default;

  // Describes a sequence in a slot of the engine. Between two calls of `forget`, the ids of a slot only grow.
  struct Ask {
    int slot = 0;
    std::span<const int32_t> ids = {};       // prompt and output
    int64_t most = 0;                        // maximum number of draft tokens
    std::vector<int32_t>* result = nullptr;  // draft tokens are appended here
  };
  // Returns true if `propose` may find draft tokens for this sequence.
  virtual bool has(const Ask& ask) = 0;
  // Appends up to `most` (>= 1) likely next tokens to each result, in order.
  virtual void propose(std::span<const Ask> asks) = 0;
  // Called when a sequence has left its slot.
  virtual void forget(int slot) = 0;
};

}  // namespace gpt
