#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/feed.h"
#include "infer/sequence_model.h"

namespace gpt {

struct BeamOptions {
  int64_t width = 5;                  // number of beams, 1 to the model's slots
  int64_t steps = 50;                 // tokens to add, >= 0
  std::vector<int32_t> eos_ids = {};  // ids that end a beam
  double length_penalty = 0;          // score = sum of log-probabilities / length ^ penalty; 0 = off
  ContextPolicy context = ContextPolicy::stop;
  int64_t prefill_chunk = 512;  // maximum tokens per forward call; no effect on results
  int adapter = -1;             // index of the adapter; -1: none
};

struct Beam {
  std::vector<int32_t> ids;  // generated ids, including a final EOS
  double log_prob = 0;       // natural log-probability of all ids given the prompt
  double score = 0;          // ranking score
  FinishReason finish = FinishReason::length;
};

// Runs beam search. In each step, every beam proposes its `width` most likely tokens, and the `width` best
// proposals become the new beams. Ties are resolved in favor of the better-ranked parent, then of the lower
// token id. A finished beam stays unchanged and keeps competing with its score. Log-probabilities are
// computed from the raw logits, without penalties or temperature.
//
// Returns the beams, best first. The result has `width` beams, or fewer if the vocabulary is too small. Uses
// slots 0 to width - 1 of the model. Throws invalid_argument for invalid options and Error for an invalid
// prompt, like `generate`.
std::vector<Beam> beam_search(SequenceModel& model, std::span<const int32_t> prompt,
                              const BeamOptions& options);

}  // namespace gpt
