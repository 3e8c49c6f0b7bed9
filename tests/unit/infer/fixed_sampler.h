#pragma once

#include <limits>

#include "infer/sampler.h"
#include "support/backend.h"
#include "tensor/device.h"

namespace gpt {

// A sampler with fixed parameters that samples one sequence at a time.
class FixedSampler {
 public:
  FixedSampler(SamplingParams params, int64_t vocab_size)
      : params_(std::move(params)), sampler_(test::backend(pool_, Isa::ref), vocab_size) {
    validate(params_, vocab_size);
  }

  Draw draw(std::span<const float> logits, TokenHistory history, RandomStream random, int64_t logprobs = -1) {
    Draw d{.params = &params_, .history = history, .random = random, .logprobs = logprobs};
    const TensorView host = make_view(logits.data(), {1, std::ssize(logits)});
    Buffer memory(logits.size() * sizeof(float), "logits", test::device());
    const TensorView rows = memory.view(0, DType::f32, host.dims());
    copy_elements(host, rows);
    sampler_.draw(rows, {&d, 1});
    if (d.id < 0) throw Error(d.error);
    return d;
  }
  int32_t sample(std::span<const float> logits, TokenHistory history, RandomStream& random) {
    const Draw d = draw(logits, history, random);
    random = d.random;
    return d.id;
  }

 private:
  SamplingParams params_;
  ThreadPool pool_{1};
  Sampler sampler_;
};

// Returns the log-probabilities of a greedy choice. Bias and penalties must not affect them.
inline Logprobs logprobs_of(const std::vector<float>& logits, int32_t chosen, int64_t top) {
  FixedSampler sampler({.temperature = 0,
                        .repetition_penalty = 2,
                        .logit_bias = {{chosen, std::numeric_limits<double>::infinity()}}},
                       std::ssize(logits));
  return sampler.draw(logits, {}, {1, RandomSite::test}, top).result;
}

}  // namespace gpt
