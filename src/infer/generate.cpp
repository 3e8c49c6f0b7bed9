#include "infer/generate.h"

#include <string>

#include "base/error.h"
#include "infer/engine.h"

namespace gpt {
namespace {

constexpr int64_t kMostSamples = 100000;  // the results of all samples are kept in memory

void check_options(const SequenceModel& model, const GenerateOptions& o) {
  if (o.max_tokens < 0)
    fail_parameter("max_tokens", "expected 0 or a positive number, found {}", o.max_tokens);
  if (o.n < 1 || o.n > kMostSamples) {
    fail_parameter("n", "expected a number of samples from 1 to {}, found {}", kMostSamples, o.n);
  }
  if (o.prefill_chunk < 1)
    fail_parameter("prefill_chunk", "expected a positive number, found {}", o.prefill_chunk);
  check_policy(model, o.context);
}

Request request_of(const GenerateOptions& o, const std::vector<int32_t>& prompt, size_t number) {
  return {.prompt = prompt,
          .max_tokens = o.max_tokens,
          .sampling = o.sampling,
          .seed = o.seed,
          .number = o.first_sample + number,
          .eos_ids = o.eos_ids,
          .stop_ids = o.stop_ids,
          .context = o.context,
          .logprobs = o.logprobs,
          .adapter = o.adapter,
          .constraint = o.constraint};
}

// Adds an event to its completion. Returns true if the sample may continue.
bool take_event(const Event& event, Completion& result, const OnToken& on_token) {
  if (event.finish == FinishReason::error) throw Error(std::string(event.error));
  result.ids.push_back(event.id);
  if (event.logprobs) result.logprobs.push_back(*event.logprobs);
  if (event.finish) result.finish = *event.finish;
  if (!on_token || on_token({result.prompt, result.sample, event.id, event.logprobs, event.finish,
                             event.proposed, event.accepted}))
    return true;
  if (event.finish != FinishReason::eos) result.finish = FinishReason::stop;
  return false;
}

}  // namespace

void check_prompts(const SequenceModel& model, std::span<const std::vector<int32_t>> prompts,
                   ContextPolicy context) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string what = prompts.size() == 1 ? "prompt" : fmt::format("prompt {}", i + 1);
    check_prompt(model, prompts[i], context, what);
  }
}

std::vector<Completion> generate(SequenceModel& model, std::span<const std::vector<int32_t>> prompts,
                                 const GenerateOptions& options, const OnToken& on_token) {
  check_options(model, options);
  check_prompts(model, prompts, options.context);
  std::vector<Completion> results(prompts.size() * static_cast<size_t>(options.n));
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].prompt = static_cast<int64_t>(i) / options.n;
    results[i].sample = static_cast<int64_t>(i) % options.n;
  }
  if (options.max_tokens == 0) return results;
  Engine engine(model, {.step_rows = options.prefill_chunk, .speculation = options.speculation});
  for (size_t next = 0; next < results.size() || !engine.idle();) {
    // The queue holds one request more than there are slots, which keeps the engine busy. Additional queued
    // requests would only use memory for copies of their prompts.
    for (; next < results.size() && engine.waiting() <= model.slots(); ++next) {
      const auto prompt = static_cast<size_t>(results[next].prompt);
      engine.submit(request_of(options, prompts[prompt], next));
    }
    if (options.before_step) options.before_step();
    for (const Event& event : engine.step()) {  // request numbers equal indices into `results`
      if (!take_event(event, results[static_cast<size_t>(event.request)], on_token))
        engine.cancel(event.request);
    }
  }
  return results;
}

}  // namespace gpt
