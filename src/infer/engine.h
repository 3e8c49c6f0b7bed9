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

// A prompt to continue, once.
struct Request {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 50;  // new ones, >= 1
  SamplingParams sampling = {};
  // The token at position i of the output is drawn from RandomStream(seed, RandomSite::sample, i, number).
  uint64_t seed = 0;
  uint64_t number = 0;
  std::vector<int32_t> eos_ids = {};   // end it (FinishReason::eos); ids beyond the vocabulary never do
  std::vector<int32_t> stop_ids = {};  // end it too (FinishReason::stop)
  ContextPolicy context = ContextPolicy::stop;
  int64_t logprobs = -1;                        // -1: none; 0: of the chosen token; k: and of the k likeliest
  int adapter = -1;                             // one of the model's; -1: none
  std::shared_ptr<const void> owner = nullptr;  // kept until the request has ended: of the adapter, say
  uint64_t salt = 0;  // it shares cached beginnings with requests of the same salt alone
  // What the output may be; null: anything. Each request works with a copy, so that several may have the same
  // one.
  std::shared_ptr<const Constraint> constraint = nullptr;
};

// One new token of a request, the ending one (EOS, a stop id) included.
struct Event {
  int64_t request = 0;
  int32_t id = -1;                     // none with FinishReason::error
  const Logprobs* logprobs = nullptr;  // null unless asked for
  std::optional<FinishReason> finish;  // set when this is the request's last event
  std::string_view error = {};         // with FinishReason::error: what went wrong
  int64_t reused = 0;                  // ids of the request's prompt that were known when it began
  // Of this request so far: tokens that were proposed, and those of them that were drawn.
  int64_t proposed = 0, accepted = 0;
};

// Continues any number of requests together. Every step is one forward call over all active sequences:
// one token of each that is generating, and with the rows that are left parts of prompts. Requests start,
// end and are cancelled between any two steps.
//
// The tokens of a request and their log-probabilities depend on the model and the request alone, never on
// what runs beside it, on the size of a step, on the memory, or on what was computed before it came.
//
// Order. Requests start in the order of their submission, as slots and memory allow; none is dropped.
// When memory runs out in the middle, the youngest sequences go back to the queue, and what they had
// computed is computed again later. A request that begins like one whose prompt is being computed waits
// for it where that saves work, so that a common beginning is computed once. So n samples of a prompt are
// n requests with the same prompt and different numbers.
//
// With speculation a forward call may bring a sequence several tokens. They come one by one, each drawn in a
// step of its own as it would be without, and the sequence may be cancelled after each.
//
// One thread at a time may call an engine; it uses all slots of the model.
class Engine {
 public:
  struct Options {
    int64_t step_rows = 512;  // most ids in one forward call, >= 1
    Speculation speculation = {};
  };
  // Refers to the model, which outlives it.
  Engine(SequenceModel& model, Options options);

  // Queues a request and returns what names it from now on: requests count from 0. Throws invalid_argument
  // for invalid options, Error for a prompt that is empty, holds ids outside the vocabulary or (policy stop)
  // exceeds the context.
  int64_t submit(Request request);
  // Ends a request now, without further events; false when it is not (or no longer) known.
  bool cancel(int64_t request);

  // From the next step on, as many rows are for prompts where sequences generate beside them; otherwise all
  // are. 0: prompts wait for a step.
  void limit_prompts(int64_t rows) { prompt_rows_ = rows; }
  // What the last step did.
  struct Work {
    int64_t generating = 0;   // sequences
    int64_t prompt_rows = 0;  // of others
    int64_t prompts = 0;      // these, and those that wait
  };
  const Work& last_work() const { return work_; }

  // One step. Returns what it produced, at most one token of a request, in the order of the batch; valid
  // until the next call. A step may produce nothing while prompts are computed. Must not be called when idle.
  std::span<const Event> step();
  // Whether the next step needs no forward call: it draws tokens whose logits the last one has brought.
  bool draws_more() const { return !drawing_.empty(); }
  bool idle() const { return running_.empty() && waiting_.empty(); }

  int64_t running() const { return std::ssize(running_); }
  int64_t waiting() const { return std::ssize(waiting_); }

  struct Counts {
    int64_t steps = 0;        // forward calls
    int64_t computed = 0;     // ids that went through the model
    int64_t reused = 0;       // ids that did not have to
    int64_t preemptions = 0;  // sequences sent back to the queue
    int64_t proposed = 0;     // ids that were computed since they were likely to be drawn
    int64_t accepted = 0;     // and that were drawn
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Sequence {
    int64_t id;
    Request request;
    std::vector<int32_t> ids;  // prompt and output
    std::unique_ptr<Constraint> constraint;
    std::vector<int32_t> end_ids;  // with a constraint: those of the request that are in the vocabulary
    int slot = -1;
    size_t base = 0;                     // the slot holds ids from here on
    std::optional<int64_t> reused = {};  // of the prompt, when it first began
    bool ended = false;
    // In a step that draws: the last id, and what was proposed to follow it; the row of the logits after it;
    // how many tokens were drawn. The slot holds all of `fed` until they are drawn.
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
  std::vector<Sequence*> drawing_;  // whose next token the step draws
  std::vector<Draw> draws_;         // [most_running_]
  Buffer logits_;                   // of the last forward call
  TensorView step_logits_;          // [rows, V]
  std::optional<Speculator> speculator_;
  std::vector<Speculator::Candidate> candidates_;
  std::vector<Event> events_;
  int64_t prompt_rows_ = INT64_MAX;
  Work work_;
  Counts counts_;
};

}  // namespace gpt
