#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "infer/constraint.h"
#include "infer/feed.h"
#include "infer/sampler.h"
#include "infer/sequence_model.h"
#include "infer/speculation.h"

namespace gpt {

// A prompt to complete once, and its options.
struct Request {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 50;  // maximum number of new tokens, >= 1
  SamplingParams sampling = SamplingParams::neutral();
  // The token at position i of the output is sampled with RandomStream(seed, RandomSite::sample, i, number).
  uint64_t seed = 0;
  uint64_t number = 0;
  // Ids that end the sequence with FinishReason::eos; invalid ids are ignored.
  std::vector<int32_t> eos_ids = {};
  std::vector<int32_t> stop_ids = {};  // ids that end the sequence (FinishReason::stop)
  ContextPolicy context = ContextPolicy::stop;
  int64_t logprobs = -1;  // -1: no log-probabilities; 0: of the sampled token; k: also of the top k
  int adapter = -1;       // index of the adapter; -1: none
  // An object to keep alive until the request ends, for example the adapter.
  std::shared_ptr<const void> owner = nullptr;
  uint64_t salt = 0;  // the request shares cached prefixes only with requests of the same salt
  // Restricts the output; null: no restriction. Each request clones the constraint, so several requests may
  // share one constraint object.
  std::shared_ptr<const Constraint> constraint = nullptr;
};

// One new token of a request. The final token of a request (EOS or a stop id) is reported too.
struct Event {
  int64_t request = 0;
  int32_t id = -1;                     // the sampled token; -1 with FinishReason::error
  const Logprobs* logprobs = nullptr;  // null unless log-probabilities were requested
  std::optional<FinishReason> finish;  // set in the last event of the request
  std::string_view error = {};         // error message with FinishReason::error
  int64_t reused = 0;                  // number of prompt ids found in the KV cache when the request started
  // Number of draft tokens so far for this request, and number of accepted draft tokens.
  int64_t proposed = 0, accepted = 0;
};

// Runs any number of requests concurrently (continuous batching). Every step is one forward call over all
// active sequences. The step computes one token of each generating sequence and uses the remaining rows for
// prompt chunks. Requests can start, end and be cancelled between any two steps.
//
// The tokens of a request and their log-probabilities depend only on the model and the request. The results
// do not depend on other requests, the size of a step, memory, or earlier computation.
//
// Requests start in the order of submission, as slots and memory allow. No request is dropped. If memory runs
// out, the youngest sequences return to the queue and are recomputed later. A request that shares a prefix
// with a prompt in flight waits for that prompt if this saves work, so common prefixes are computed once. To
// generate n samples of a prompt, submit n requests with the same prompt and different numbers.
//
// With speculation, one forward call may yield several tokens of a sequence. Each of these tokens is sampled
// in its own step, exactly as without speculation, and the sequence can be cancelled after each token.
//
// Only one thread may call an engine at a time. The engine uses all slots of the model.
class Engine {
 public:
  struct Options {
    int64_t step_rows = 512;  // maximum ids per forward call, >= 1
    Speculation speculation = {};
  };
  // The model must outlive the engine.
  Engine(SequenceModel& model, Options options);

  // Queues a request and returns its number, counted from 0. Throws invalid_argument for invalid options.
  // Throws Error if the prompt is empty, contains ids outside the vocabulary, or is longer than the context
  // (with ContextPolicy::stop).
  int64_t submit(Request request);
  // Ends a request immediately, without further events. Returns false if the request is unknown or has
  // already ended.
  bool cancel(int64_t request);

  // Limits the number of prompt rows in steps that also have generating sequences, starting with the next
  // step. With 0, prompts wait while sequences generate.
  void limit_prompts(int64_t rows) { prompt_rows_ = rows; }
  // Describes the work of the last step.
  struct Work {
    int64_t generating = 0;   // number of generating sequences
    int64_t prompt_rows = 0;  // number of rows used for prompts
    int64_t prompts = 0;      // number of unfinished prompts, including queued requests
  };
  const Work& last_work() const { return work_; }

  // Runs one step. Returns the events of the step in batch order, with at most one event per request. The
  // events stay valid until the next call of step(). A step that only computes prompts may return no event.
  // step() must not be called if the engine is idle.
  std::span<const Event> step();
  // Returns true if the next step needs no forward call, because the last call already computed the logits.
  bool draws_more() const { return !drawing_.empty(); }
  bool idle() const { return running_.empty() && waiting_.empty(); }

  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ssize(waiting_); }

  struct Counts {
    int64_t steps = 0;        // number of forward calls
    int64_t computed = 0;     // number of ids computed by the model
    int64_t reused = 0;       // number of ids found in the KV cache
    int64_t preemptions = 0;  // number of times that a sequence returned to the queue
    int64_t proposed = 0;     // number of computed draft tokens
    int64_t accepted = 0;     // number of accepted draft tokens
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Sequence {
    int64_t id;
    Request request;
    std::vector<int32_t> ids;  // prompt and output
    std::unique_ptr<Constraint> constraint;
    std::vector<int32_t> end_ids;  // with a constraint: the valid stop and EOS ids of the request
    int slot = -1;
    size_t base = 0;                     // index of the slot's first id in `ids`
    std::optional<int64_t> reused = {};  // number of reused prompt ids when the sequence first started
    bool ended = false;
    // Used in steps that sample. `fed` contains the last id of the sequence, followed by the draft tokens.
    // The forward call appends all of them to the slot; rejected draft tokens are removed later. `row` is the
    // row of the logits after the first id in `fed`. `drawn` is the number of tokens sampled since the
    // forward call.
    std::vector<int32_t> fed = {};
    int64_t row = 0;
    size_t drawn = 0;
    Acceptance acceptance = {};
    int64_t proposed = 0, accepted = 0;
  };
  using Handle = std::unique_ptr<Sequence>;
  std::span<const int32_t> opening(const Sequence& s) const;
  std::span<const int32_t> pending(const Sequence& s) const;
  bool generating(const Sequence& s) const { return pending(s).size() == 1; }
  void begin(Sequence& s, int slot);
  bool secure(const Sequence& s);
  bool secure_running();
  void preempt_youngest();
  void leave_slot(Sequence& s);
  void compute();
  void draw();
  int64_t schedule();
  void schedule(Sequence& s, int64_t& rows_left);
  void speculate(int64_t rows_left);
  int64_t most_proposals(const Sequence& s) const;
  void extend(SequenceModel::Append& append, Sequence& s);
  void admit(int64_t& rows_left);
  bool worth_waiting(const Sequence& s, int64_t known) const;
  void ask(const Sequence& s, Draw& draw) const;
  int64_t remaining(const Sequence& s) const;
  Event report(Sequence& s, Draw& draw);
  bool take(Sequence& s, Draw& draw) const;
  bool draws_on(Sequence& s);
  int64_t held(const Sequence& s) const;
  std::optional<FinishReason> finish_of(const Sequence& s) const;

  SequenceModel& model_;
  Options options_;
  Sampler sampler_;
  size_t most_running_;
  int64_t submitted_ = 0;
  std::vector<Handle> running_;  // oldest first
  std::deque<Handle> waiting_;   // oldest first
  std::vector<int> free_slots_;
  std::vector<SequenceModel::Append> batch_;
  std::vector<Sequence*> drawing_;  // sequences that sample a token in the current step
  std::vector<Draw> draws_;         // [most_running_]
  Buffer logits_;                   // buffer for the logits of the last forward call
  TensorView step_logits_;          // [rows, V]
  std::optional<Speculator> speculator_;
  std::vector<Speculator::Candidate> candidates_;
  std::vector<Event> events_;
  int64_t prompt_rows_ = INT64_MAX;
  Work work_;
  Counts counts_;
};

}  // namespace gpt
