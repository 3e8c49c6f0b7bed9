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
  int64_t max_tokens = 50;  // maximum tokens per sample, >= 0
  SamplingParams sampling = SamplingParams::neutral();
  uint64_t seed = 0;
  int64_t n = 1;              // samples per prompt, >= 1
  uint64_t first_sample = 0;  // number of the first sample; set it to reproduce samples of a larger run
  std::vector<int32_t> eos_ids = {};   // ids that end a sample (FinishReason::eos); invalid ids are ignored
  std::vector<int32_t> stop_ids = {};  // ids that end a sample (FinishReason::stop)
  ContextPolicy context = ContextPolicy::stop;
  int64_t logprobs = -1;        // -1: no log-probabilities; 0: of the sampled token; k: also of the top k
  int adapter = -1;             // index of the adapter; -1: none
  int64_t prefill_chunk = 512;  // maximum tokens per forward call, >= 1; no effect on results
  std::shared_ptr<const Constraint> constraint = nullptr;  // applies to every sample; null: none
  Speculation speculation = {};                            // no effect on results
  std::function<void()> before_step = {};  // called before each step; an exception from it ends the call
};

// Throws Error if `generate` would reject one of the prompts. The error names the first such prompt.
void check_prompts(const SequenceModel& model, std::span<const std::vector<int32_t>> prompts,
                   ContextPolicy context);

// One new token of a sample.
struct TokenEvent {
  int64_t prompt;  // index of the prompt
  int64_t sample;  // 0 .. n - 1
  int32_t id;
  const Logprobs* logprobs;            // null unless log-probabilities were requested
  std::optional<FinishReason> finish;  // set with the last token of the sample
  int64_t proposed, accepted;          // as in Event
};

// Called for every token, including the one that ends the sample (EOS or a stop id). The tokens of one sample
// arrive in order, but the tokens of different samples are interleaved. Returning false ends the sample with
// FinishReason::stop, unless an EOS has just ended it. An exception from the callback ends the call.
using OnToken = std::function<bool(const TokenEvent&)>;

struct Completion {
  int64_t prompt = 0;
  int64_t sample = 0;
  std::vector<int32_t> ids;        // generated ids, including the token that ended the sample
  std::vector<Logprobs> logprobs;  // one for each id, if requested
  FinishReason finish = FinishReason::length;
};

// Completes every prompt n times and returns the completions ordered by (prompt, sample).
//
// An Engine runs as many samples concurrently as slots and memory allow. All slots are overwritten. Sample s
// of prompt p has the number first_sample + p · n + s. Results do not depend on slots, chunks or other
// samples. One more token can be sampled when the context is full (n_ctx ids). With ContextPolicy::stop,
// generation ends after this token.
//
// Throws invalid_argument for invalid options. Throws Error before generation starts if a prompt is empty,
// contains ids outside the vocabulary, or is longer than the context (with ContextPolicy::stop). Throws Error
// if logits are NaN or infinite.
std::vector<Completion> generate(SequenceModel& model, std::span<const std::vector<int32_t>> prompts,
                                 const GenerateOptions& options, const OnToken& on_token = {});

}  // namespace gpt
