#pragma once

#include "infer/sampler.h"

namespace gpt {

// A sampler with its parameters, for one sequence at a time.
class FixedSampler {
 public:
  FixedSampler(SamplingParams params, int64_t vocab_size)
      : params_(std::move(params)), sampler_(host_backend(pool_, Isa::ref), vocab_size) {
    validate(params_, vocab_size);
  }

  Draw draw(std::span<const float> logits, TokenHistory history, RandomStream random, int64_t logprobs = -1) {
    Draw d{.params = &params_, .history = history, .random = random, .logprobs = logprobs};
    sampler_.draw(make_view(logits.data(), {1, std::ssize(logits)}), {&d, 1});
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

}  // namespace gpt
