#include "infer/engine.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace gpt {
namespace {

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void check(const SequenceModel& model, const Request& r) {
  if (r.max_tokens < 1) fail_parameter("max_tokens", "expected a positive number, found {}", r.max_tokens);
  if (r.logprobs < -1) fail_parameter("logprobs", "expected 0 or a positive number, found {}", r.logprobs);
  for (const int32_t id : r.stop_ids) {
    if (id >= 0 && id < model.vocab_size()) continue;
    fail_usage("stop ids: expected token ids from 0 to {}, found {}", model.vocab_size() - 1, id);
  }
  validate(r.sampling, model.vocab_size());
  check_policy(model, r.context);
  check_prompt(model, r.prompt, r.context, "prompt");
}

// Moves a sequence to where its age puts it.
template <class List, class Handle>
void insert_by_age(List& list, Handle sequence) {
  const auto older = [](const Handle& a, const Handle& b) { return a->id < b->id; };
  list.insert(std::upper_bound(list.begin(), list.end(), sequence, older), std::move(sequence));
}

}  // namespace

Engine::Engine(SequenceModel& model, ThreadPool& pool, Options options)
    : model_(model),
      pool_(pool),
      options_(options),
      vocab_size_(static_cast<size_t>(model.vocab_size())),
      // A step has a row at least for every running sequence.
      most_running_(static_cast<size_t>(std::min<int64_t>(model.slots(), options.step_rows))),
      draws_(most_running_) {
  GPT_ASSERT(options.step_rows >= 1 && model.slots() >= 1);
  for (int slot = model.slots(); slot-- > 0;) {
    model.reset(slot);
    free_slots_.push_back(slot);
  }
  scratch_.reserve(static_cast<size_t>(pool.size()));  // a copy would reserve nothing
  for (int thread = 0; thread < pool.size(); ++thread) {
    scratch_.emplace_back(Scratch{Sampler(model.vocab_size()), {}});
    scratch_.back().top.reserve(model.vocab_size());
  }
  batch_.reserve(most_running_);
  running_.reserve(most_running_);
  events_.reserve(most_running_);
}

int64_t Engine::submit(Request request) {
  check(model_, request);
  auto s = std::make_unique<Sequence>();
  s->id = submitted_++;
  s->ids.reserve(request.prompt.size() + static_cast<size_t>(std::min(request.max_tokens, model_.n_ctx())));
  s->ids.assign(request.prompt.begin(), request.prompt.end());
  s->request = std::move(request);
  waiting_.push_back(std::move(s));
  return submitted_ - 1;
}

bool Engine::cancel(int64_t request) {
  const auto named = [&](const Handle& s) { return s->id == request; };
  if (std::erase_if(waiting_, named) > 0) return true;
  const auto found = std::find_if(running_.begin(), running_.end(), named);
  if (found == running_.end()) return false;
  leave_slot(**found);
  running_.erase(found);
  return true;
}

std::span<const Event> Engine::step() {
  GPT_ASSERT(!idle());
  schedule();
  logits_.resize(std::max(logits_.size(), n_draws_ * vocab_size_));
  model_.forward(batch_, logits_.data());
  ++counts_.steps;
  for (const SequenceModel::Append& append : batch_)
    counts_.computed += std::ssize(append.ids);
  pool_.parallel_for(static_cast<int64_t>(n_draws_), [&](int64_t i, int thread) {
    const auto at = static_cast<size_t>(i);
    draw(draws_[at], std::span(logits_).subspan(at * vocab_size_, vocab_size_),
         scratch_[static_cast<size_t>(thread)]);
  });
  events_.clear();
  for (size_t i = 0; i < n_draws_; ++i)
    events_.push_back(report(draws_[i]));
  std::erase_if(running_, [](const Handle& s) { return s->ended; });
  return events_;
}

// ---------------------------------------------------------------------------------------------------
// What a slot is fed.

// The ids that an empty slot is fed before the next token.
std::span<const int32_t> Engine::opening(const Sequence& s) const {
  return opening_ids(model_, s.ids, s.request.context);
}

// The ids that the slot lacks: one, or more while it computes its prompt.
std::span<const int32_t> Engine::pending(const Sequence& s) const {
  return std::span(s.ids).subspan(s.base + static_cast<size_t>(model_.length(s.slot)));
}

void Engine::begin(Sequence& s, int slot) {
  s.slot = slot;
  s.base = s.ids.size() - opening(s).size();
  model_.reset(slot);
  counts_.reused += model_.reuse(slot, opening(s));
}

void Engine::leave_slot(Sequence& s) {
  model_.reset(s.slot);
  free_slots_.push_back(s.slot);
  s.slot = -1;
}

// ---------------------------------------------------------------------------------------------------
// Memory. All that a sequence may be fed in a step is secured before the batch is made, so that a batch
// never has to be unmade.

bool Engine::secure(const Sequence& s) {
  return model_.reserve(s.slot, std::min(std::ssize(pending(s)), model_.room(s.slot)));
}

// Oldest first; who finds no memory takes that of the youngest. Returns whether any had to go.
bool Engine::secure_running() {
  const int64_t before = counts_.preemptions;
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& s = *running_[i];
    const bool full = model_.length(s.slot) >= model_.n_ctx();
    if (full && s.request.context == ContextPolicy::crop) begin(s, s.slot);
    while (i < running_.size() && !secure(s))
      preempt_youngest();
  }
  return counts_.preemptions > before;
}

void Engine::preempt_youngest() {
  Handle s = std::move(running_.back());
  running_.pop_back();
  leave_slot(*s);
  insert_by_age(waiting_, std::move(s));
  ++counts_.preemptions;
}

// ---------------------------------------------------------------------------------------------------
// The batch: a token for all that generate, then parts of prompts, older ones first, then new sequences.

void Engine::schedule() {
  batch_.clear();
  n_draws_ = 0;
  const bool short_of_memory = secure_running();
  int64_t rows_left = options_.step_rows;
  for (const bool prompts : {false, true}) {
    for (const Handle& s : running_) {
      if (generating(*s) != prompts) schedule(*s, rows_left);
    }
  }
  if (!short_of_memory) admit(rows_left);
}

void Engine::schedule(Sequence& s, int64_t& rows_left) {
  const std::span<const int32_t> ids = pending(s);
  const int64_t n = std::min({std::ssize(ids), rows_left, model_.room(s.slot)});
  if (n == 0) return;
  const bool all = n == std::ssize(ids);
  batch_.push_back({s.slot, ids.first(static_cast<size_t>(n)), all});
  rows_left -= n;
  if (all) draws_[n_draws_++].sequence = &s;
}

// Starts sequences while there is room. A block for each running sequence is left free, so that those who
// come do not drive out others, or are driven out, at once.
void Engine::admit(int64_t& rows_left) {
  for (size_t i = 0; i < waiting_.size() && rows_left > 0 && running_.size() < most_running_;) {
    Sequence& s = *waiting_[i];
    const SequenceModel::Prospect prospect = model_.prospect(opening(s));
    if (worth_waiting(s, prospect.known)) {
      ++i;
      continue;
    }
    if (!running_.empty() && prospect.blocks + running() > model_.available_blocks()) return;
    begin(s, free_slots_.back());
    free_slots_.pop_back();
    if (!secure(s)) {
      GPT_ASSERT(!running_.empty());
      leave_slot(s);
      return;
    }
    insert_by_age(running_, std::move(waiting_[i]));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    schedule(s, rows_left);
  }
}

// Whether a running sequence is about to compute a good part of what this one still needs: half of it, or
// more than a few rows of a step.
bool Engine::worth_waiting(const Sequence& s, int64_t known) const {
  constexpr int64_t kWorth = 64;
  const std::span<const int32_t> ids = opening(s);
  for (const Handle& other : running_) {
    if (generating(*other)) continue;
    const auto theirs = std::span(other->ids).subspan(other->base);
    const size_t most = std::min(ids.size() - 1, theirs.size());
    const auto [end, unused] =
        std::mismatch(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(most), theirs.begin());
    const int64_t gain = (end - ids.begin()) - known;
    if (gain >= kWorth || (gain > 0 && 2 * gain >= std::ssize(ids) - known)) return true;
  }
  return false;
}

// ---------------------------------------------------------------------------------------------------
// Results.

void Engine::draw(Draw& d, std::span<const float> logits, Scratch& scratch) const noexcept {
  const Sequence& s = *d.sequence;
  const std::span<const int32_t> ids = s.ids;
  const size_t prompt = s.request.prompt.size();
  RandomStream random(s.request.seed, RandomSite::sample, ids.size() - prompt, s.request.number);
  d.id = -1;
  try {
    const TokenHistory history{ids.first(prompt), ids.subspan(prompt)};
    const int32_t id = scratch.sampler.sample(s.request.sampling, logits, history, random);
    if (s.request.logprobs >= 0) read_logprobs(logits, id, s.request.logprobs, d.logprobs, scratch.top);
    d.id = id;
  } catch (const std::exception& e) {
    d.error = e.what();
  }
}

Event Engine::report(Draw& d) {
  Sequence& s = *d.sequence;
  Event event{.request = s.id, .id = d.id};
  if (d.id < 0) {
    event.finish = FinishReason::error;
    event.error = d.error;
  } else {
    s.ids.push_back(d.id);
    if (s.request.logprobs >= 0) event.logprobs = &d.logprobs;
    event.finish = finish_of(s);
  }
  s.ended = event.finish.has_value();
  if (s.ended) leave_slot(s);
  return event;
}

std::optional<FinishReason> Engine::finish_of(const Sequence& s) const {
  const Request& r = s.request;
  if (contains(r.eos_ids, s.ids.back())) return FinishReason::eos;
  if (contains(r.stop_ids, s.ids.back())) return FinishReason::stop;
  if (std::ssize(s.ids) - std::ssize(r.prompt) >= r.max_tokens) return FinishReason::length;
  if (context_full(model_, s.slot, r.context)) return FinishReason::context;
  return std::nullopt;
}

}  // namespace gpt
