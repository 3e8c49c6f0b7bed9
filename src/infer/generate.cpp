#include "infer/generate.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gpt {
namespace {

constexpr int64_t kMostSamples = 100000;  // results of all samples are in memory at once

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void check_options(const SequenceModel& model, const GenerateOptions& o) {
  if (o.max_tokens < 0) fail_usage("--max-tokens: expected 0 or a positive number, found {}", o.max_tokens);
  if (o.n < 1 || o.n > kMostSamples) {
    fail_usage("--n: expected a number of samples from 1 to {}, found {}", kMostSamples, o.n);
  }
  if (o.logprobs < -1) fail_usage("--logprobs: expected 0 or a positive number, found {}", o.logprobs);
  if (o.prefill_chunk < 1)
    fail_usage("--prefill-chunk: expected a positive number, found {}", o.prefill_chunk);
  for (const int32_t id : o.stop_ids) {
    if (id >= 0 && id < model.vocab_size()) continue;
    fail_usage("stop ids: expected token ids from 0 to {}, found {}", model.vocab_size() - 1, id);
  }
  check_policy(model, o.context);
}

// One call of generate.
class Run {
 public:
  Run(SequenceModel& model, std::span<const std::vector<int32_t>> prompts, const GenerateOptions& options,
      const OnToken& on_token)
      : model_(model),
        prompts_(prompts),
        options_(options),
        on_token_(on_token),
        sampler_(options.sampling, model.vocab_size()),
        vocab_size_(static_cast<size_t>(model.vocab_size())) {
    results_.resize(prompts.size() * static_cast<size_t>(options.n));
    for (size_t i = 0; i < results_.size(); ++i) {
      results_[i].prompt = static_cast<int64_t>(i) / options.n;
      results_[i].sample = static_cast<int64_t>(i) % options.n;
    }
    for (int slot = model.slots(); slot-- > 0;)
      free_.push_back(slot);
  }

  std::vector<Completion> run() && {
    if (options_.max_tokens == 0) return std::move(results_);
    for (admit(); !running_.empty(); admit())
      step();
    return std::move(results_);
  }

 private:
  struct Sequence {
    size_t number;  // index in results_
    int slot;       // holds all ids but the last
    std::vector<int32_t> ids;
    size_t prompt_size;
  };

  // A prompt in its slot, and the samples that have yet to start from there.
  struct Fork {
    size_t next, end;  // indices in results_
    int slot;
    std::vector<float> logits;  // [V] after the prompt
  };

  const std::vector<int32_t>& prompt_of(size_t number) const {
    return prompts_[static_cast<size_t>(results_[number].prompt)];
  }

  int take_slot() {
    const int slot = free_.back();
    free_.pop_back();
    model_.reset(slot);
    return slot;
  }

  // Starts samples until slots or samples run out.
  void admit() {
    if (fork_) {
      if (!start_samples(*fork_)) return;
      fork_.reset();
    }
    while (next_ < results_.size() && !free_.empty()) {
      std::vector<Fork> forks = open_prompts();
      for (Fork& fork : forks) {
        if (start_samples(fork)) continue;
        GPT_ASSERT(&fork == &forks.back());
        fork_ = std::move(fork);
        return;
      }
    }
  }

  // Feeds the next prompts to slots of their own: as many as leave a slot for each of their samples,
  // except that the last may have more samples than there are slots.
  std::vector<Fork> open_prompts() {
    std::vector<Fork> forks;
    std::vector<SequenceModel::Append> appends;
    const size_t slots = free_.size();
    for (size_t reserved = 0; reserved < slots && next_ < results_.size();) {
      const size_t end = static_cast<size_t>((results_[next_].prompt + 1) * options_.n);
      forks.push_back({next_, end, take_slot(), {}});
      appends.push_back({forks.back().slot, opening_ids(model_, prompt_of(next_), options_.context)});
      reserved += end - next_;
      next_ = end;
    }
    logits_.resize(forks.size() * vocab_size_);
    feed(model_, appends, options_.prefill_chunk, logits_.data());
    for (size_t i = 0; i < forks.size(); ++i) {
      const auto row = std::span(logits_).subspan(i * vocab_size_, vocab_size_);
      forks[i].logits.assign(row.begin(), row.end());
    }
    return forks;
  }

  // Returns whether all samples of the fork have started; if not, a slot must become free first.
  bool start_samples(Fork& fork) {
    while (fork.next < fork.end) {
      const bool last = fork.next + 1 == fork.end;
      const bool only_slot = free_.empty() && running_.empty();
      if (!last && !only_slot && free_.empty()) return false;
      int slot = fork.slot;  // the last sample needs no copy
      if (!last && !only_slot) {
        slot = take_slot();
        model_.copy(fork.slot, slot);
      }
      start(fork.next++, slot, fork.logits);
      if (only_slot && !last) {  // nowhere to keep the prompt: it is fed again for the other samples
        next_ = fork.next;
        return true;
      }
    }
    return true;
  }

  void start(size_t number, int slot, std::span<const float> logits) {
    const std::vector<int32_t>& prompt = prompt_of(number);
    Sequence sequence{number, slot, prompt, prompt.size()};
    if (advance(sequence, logits)) {
      running_.push_back(std::move(sequence));
    } else {
      free_.push_back(slot);
    }
  }

  // Gives every running sequence one more token.
  void step() {
    std::vector<SequenceModel::Append> appends;
    for (const Sequence& s : running_) {
      appends.push_back(following_ids(model_, s.slot, s.ids, options_.context));
    }
    logits_.resize(running_.size() * vocab_size_);
    feed(model_, appends, options_.prefill_chunk, logits_.data());
    std::vector<Sequence> going_on;
    for (size_t i = 0; i < running_.size(); ++i) {
      if (advance(running_[i], std::span(logits_).subspan(i * vocab_size_, vocab_size_))) {
        going_on.push_back(std::move(running_[i]));
      } else {
        free_.push_back(running_[i].slot);
      }
    }
    running_ = std::move(going_on);
  }

  // Draws the next token of a sequence and reports it; returns whether the sequence goes on.
  bool advance(Sequence& sequence, std::span<const float> logits) {
    Completion& result = results_[sequence.number];
    const std::span<const int32_t> ids = sequence.ids;
    RandomStream random(options_.seed, RandomSite::sample, ids.size() - sequence.prompt_size,
                        options_.first_sample + sequence.number);
    const int32_t id =
        sampler_.sample(logits, {ids.first(sequence.prompt_size), ids.subspan(sequence.prompt_size)}, random);
    sequence.ids.push_back(id);
    result.ids.push_back(id);
    if (options_.logprobs >= 0) result.logprobs.push_back(logprobs_of(logits, id, options_.logprobs));
    std::optional<FinishReason> finish = finish_of(result, sequence.slot);
    if (on_token_) {
      const Logprobs* logprobs = options_.logprobs >= 0 ? &result.logprobs.back() : nullptr;
      const bool go_on = on_token_({result.prompt, result.sample, id, logprobs, finish});
      if (!go_on && finish != FinishReason::eos) finish = FinishReason::stop;
    }
    if (finish) result.finish = *finish;
    return !finish;
  }

  std::optional<FinishReason> finish_of(const Completion& result, int slot) const {
    const int32_t id = result.ids.back();
    if (contains(options_.eos_ids, id)) return FinishReason::eos;
    if (contains(options_.stop_ids, id)) return FinishReason::stop;
    if (std::ssize(result.ids) >= options_.max_tokens) return FinishReason::length;
    if (context_full(model_, slot, options_.context)) return FinishReason::context;
    return std::nullopt;
  }

  SequenceModel& model_;
  std::span<const std::vector<int32_t>> prompts_;
  const GenerateOptions& options_;
  const OnToken& on_token_;
  Sampler sampler_;
  size_t vocab_size_;
  std::vector<Completion> results_;
  std::vector<int> free_;  // slots
  std::vector<Sequence> running_;
  std::optional<Fork> fork_;   // the prompt whose samples wait for slots
  size_t next_ = 0;            // the first sample that is neither started nor part of a fork
  std::vector<float> logits_;  // [batch, V]
};

}  // namespace

std::vector<Completion> generate(SequenceModel& model, std::span<const std::vector<int32_t>> prompts,
                                 const GenerateOptions& options, const OnToken& on_token) {
  check_options(model, options);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::string what = prompts.size() == 1 ? "prompt" : fmt::format("prompt {}", i + 1);
    check_prompt(model, prompts[i], options.context, what);
  }
  return Run(model, prompts, options, on_token).run();
}

}  // namespace gpt
