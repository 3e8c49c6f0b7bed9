#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "infer/feed.h"
#include "infer/sampler.h"
#include "infer/sequence_model.h"
#include "infer/speculation.h"

namespace gpt {

struct GenerateOptions {
  int64_t max_tokens = 50;  // per sample, >= 0
  SamplingParams sampling = {};
  uint64_t seed = 0;
  int64_t n = 1;                       // samples per prompt, >= 1
  uint64_t first_sample = 0;           // number of the first sample, to repeat part of a larger run
  std::vector<int32_t> eos_ids = {};   // end a sample (FinishReason::eos); ids beyond the vocabulary never do
  std::vector<int32_t> stop_ids = {};  // end a sample too (FinishReason::stop)
  ContextPolicy context = ContextPolicy::stop;
  int64_t logprobs = -1;        // -1: none; 0: of the chosen token; k: and of the k likeliest
  int adapter = -1;             // one of the model's; -1: none
  int64_t prefill_chunk = 512;  // most tokens in one forward call, >= 1; no effect on results
  std::shared_ptr<const Constraint> constraint = nullptr;  // of every sample; null: none
  Speculation speculation = {};                            // no effect on results
  std::function<void()> before_step = {};  // called before each forward call; may throw, which ends the run
};

// Throws Error, naming the prompt, for one that `generate` does not take.
void check_prompts(const SequenceModel& model, std::span<const std::vector<int32_t>> prompts,
                   ContextPolicy context);

// One new token, as it arrives.
struct TokenEvent {
  int64_t prompt;  // index of the prompt
  int64_t sample;  // 0 .. n - 1
  int32_t id;
  const Logprobs* logprobs;            // null unless asked for
  std::optional<FinishReason> finish;  // set when this is the sample's last token
  int64_t proposed, accepted;          // as in Event
};

// Called for every token, the ending one (EOS, a stop id) included, in order within a sample; samples
// interleave. Returns whether the sample goes on: false ends it with FinishReason::stop, unless an EOS
// has just ended it. It may throw, which ends the run.
using OnToken = std::function<bool(const TokenEvent&)>;

struct Completion {
  int64_t prompt = 0;
  int64_t sample = 0;
  std::vector<int32_t> ids;        // what was generated, the ending token included
  std::vector<Logprobs> logprobs;  // one per id, if asked for
  FinishReason finish = FinishReason::length;
};

// Continues every prompt n times and returns the completions ordered by (prompt, sample).
//
// An Engine runs them, as many at once as slots and memory allow; all slots are overwritten. Sample s of
// prompt p is number first_sample + p · n + s. Nothing depends on slots, chunks or neighbours.
// A context of n_ctx ids gives one more token, which under ContextPolicy::stop is the last.
//
// Throws invalid_argument for invalid options; Error for prompts that are empty, hold ids outside the
// vocabulary or (policy stop) exceed the context, before anything is generated; Error when the model's
// logits are not finite.
std::vector<Completion> generate(SequenceModel& model, std::span<const std::vector<int32_t>> prompts,
                                 const GenerateOptions& options, const OnToken& on_token = {});

}  // namespace gpt
