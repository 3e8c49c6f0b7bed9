#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/feed.h"
#include "infer/sequence_model.h"

namespace gpt {

struct BeamOptions {
  int64_t width = 5;                  // beams kept, 1 to the model's slots
  int64_t steps = 50;                 // tokens to add, >= 0
  std::vector<int32_t> eos_ids = {};  // end a beam; none by default
  double length_penalty = 0;          // score = sum of log-probabilities / length ^ penalty; 0 = off
  ContextPolicy context = ContextPolicy::stop;
  int64_t prefill_chunk = 512;  // most tokens in one forward call; no effect on results
  int adapter = -1;             // one of the model's; -1: none
};

struct Beam {
  std::vector<int32_t> ids;  // what was generated, an ending EOS included
  double log_prob = 0;       // natural, of all ids given the prompt
  double score = 0;          // what beams are ranked by
  FinishReason finish = FinishReason::length;
};

// Beam search: each beam proposes its `width` likeliest tokens, and the `width` best of all proposals
// stay; ties go to the better-ranked parent, then to the lower id. A beam that ended stays as it is and
// competes with its score. Log-probabilities are the model's own, without penalties or temperature.
//
// Returns the beams, best first: `width` of them, or fewer where the vocabulary allows fewer. Uses the
// model's slots 0 .. width - 1. Throws invalid_argument for invalid options and Error for the prompt as
// `generate` does.
std::vector<Beam> beam_search(SequenceModel& model, std::span<const int32_t> prompt,
                              const BeamOptions& options);

}  // namespace gpt
