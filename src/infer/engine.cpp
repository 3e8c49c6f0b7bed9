#include "infer/engine.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
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
  if (r.adapter < -1 || r.adapter >= model.adapters())
    fail_parameter("adapter", "expected -1 or the index of one of the model's {} adapters, found {}",
                   model.adapters(), r.adapter);
  validate(r.sampling, model.vocab_size());
  check_policy(model, r.context);
  check_prompt(model, r.prompt, r.context, "prompt");
}

// Inserts a sequence into a list that is sorted by age.
template <class List, class Handle>
void insert_by_age(List& list, Handle sequence) {
  const auto older = [](const Handle& a, const Handle& b) { return a->id < b->id; };
  list.insert(std::upper_bound(list.begin(), list.end(), sequence, older), std::move(sequence));
}

}  // namespace

Engine::Engine(SequenceModel& model, Options options)
    : model_(model),
      options_(options),
      sampler_(model.backend(), model.vocab_size()),
      // A step needs at least one row for every running sequence.
      most_running_(static_cast<size_t>(std::min<int64_t>(model.slots(), options.step_rows))),
      draws_(most_running_) {
  GPT_ASSERT(options.step_rows >= 1 && model.slots() >= 1);
  options_.step_rows = std::min(options.step_rows, model.max_rows());
  for (int slot = model.slots(); slot-- > 0;) {
    model.reset(slot);
    free_slots_.push_back(slot);
  }
  drawing_.reserve(most_running_);
  batch_.reserve(most_running_);
  running_.reserve(most_running_);
  events_.reserve(most_running_);
  if (options.speculation.source == Speculation::Source::off) return;
  speculator_.emplace(model, options.speculation, options_.step_rows);
  candidates_.reserve(most_running_);
}

int64_t Engine::submit(Request request) {
  check(model_, request);
  auto s = std::make_unique<Sequence>();
  s->id = submitted_++;
  s->ids.reserve(request.prompt.size() + static_cast<size_t>(std::min(request.max_tokens, model_.n_ctx())));
  s->ids.assign(request.prompt.begin(), request.prompt.end());
  s->fed.reserve(speculator_ ? 1 + static_cast<size_t>(speculator_->max_tokens()) : 1);
  s->request = std::move(request);
  if (s->request.constraint) {
    s->constraint = s->request.constraint->clone();
    s->end_ids = s->request.stop_ids;
    for (const int32_t id : s->request.eos_ids)
      if (id >= 0 && id < model_.vocab_size()) s->end_ids.push_back(id);
  }
  waiting_.push_back(std::move(s));
  return submitted_ - 1;
}

bool Engine::cancel(int64_t request) {
  const auto named = [&](const Handle& s) { return s->id == request; };
  if (std::erase_if(waiting_, named) > 0) return true;
  const auto found = std::find_if(running_.begin(), running_.end(), named);
  if (found == running_.end()) return false;
  std::erase(drawing_, found->get());
  leave_slot(**found);
  running_.erase(found);
  return true;
}

std::span<const Event> Engine::step() {
  GPT_ASSERT(!idle());
  if (!draws_more()) compute();
  events_.clear();
  draw();
  return events_;
}

// Runs a forward call.
void Engine::compute() {
  speculate(schedule());
  int64_t rows = 0;
  auto next = drawing_.begin();
  for (const SequenceModel::Append& append : batch_) {
    if (append.wanted > 0) (*next++)->row = rows;
    rows += append.wanted;
  }
  const int64_t shape[] = {rows, model_.vocab_size()};
  step_logits_ = logits_.grow(DType::f32, shape, "logits", model_.backend().device.get());
  const auto start = Clock::now();
  try {
    model_.forward(batch_, step_logits_);
  } catch (...) {
    drawing_.clear();
    throw;
  }
  ++counts_.steps;
  int64_t computed = 0;
  for (const SequenceModel::Append& append : batch_)
    computed += std::ssize(append.ids);
  counts_.computed += computed;
  if (speculator_) speculator_->learn(computed, seconds_since(start));
}

// Samples the next token of every sequence whose logits are available.
void Engine::draw() {
  if (drawing_.empty()) return;
  for (size_t i = 0; i < drawing_.size(); ++i)
    ask(*drawing_[i], draws_[i]);
  sampler_.draw(step_logits_, std::span(draws_).first(drawing_.size()));
  for (size_t i = 0; i < drawing_.size(); ++i)
    events_.push_back(report(*drawing_[i], draws_[i]));
  std::erase_if(drawing_, [this](Sequence* s) { return !draws_on(*s); });
  std::erase_if(running_, [](const Handle& s) { return s->ended; });
}

// ---------------------------------------------------------------------------------------------------
// Slots.

// Returns the ids to append to an empty slot before the next token can be sampled.
std::span<const int32_t> Engine::opening(const Sequence& s) const {
  return opening_ids(model_, s.ids, s.request.context);
}

// Returns the ids of the sequence that its slot does not yet hold. This is one id while the sequence
// generates, and more while its prompt is computed.
std::span<const int32_t> Engine::pending(const Sequence& s) const {
  return std::span(s.ids).subspan(s.base + static_cast<size_t>(model_.length(s.slot)));
}

void Engine::begin(Sequence& s, int slot) {
  s.slot = slot;
  s.base = s.ids.size() - opening(s).size();
  model_.reset(slot, s.request.adapter, s.request.salt);
  const int64_t known = model_.reuse(slot, opening(s));
  counts_.reused += known;
  if (!s.reused) s.reused = known;
}

void Engine::leave_slot(Sequence& s) {
  model_.reset(s.slot);
  if (speculator_) speculator_->forget(s.slot);
  free_slots_.push_back(s.slot);
  s.slot = -1;
}

// --------------------------------------------------------------------------------------------------- Memory.
// The engine reserves memory for every id that a step may append before it builds the batch. Therefore a
// batch never fails for lack of memory.

bool Engine::secure(const Sequence& s) {
  return model_.reserve(s.slot, std::min(std::ssize(pending(s)), model_.room(s.slot)));
}

// Reserves memory for the running sequences, oldest first. If memory runs out, the youngest sequence is
// preempted. Returns true if any sequence was preempted.
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
// The batch first contains one token of each generating sequence, then prompt chunks (oldest first), then new
// sequences.
// sequences.

// Returns the number of unused rows.
int64_t Engine::schedule() {
  batch_.clear();
  drawing_.clear();
  const bool short_of_memory = secure_running();
  int64_t rows_left = options_.step_rows;
  const auto schedule_all = [&](bool generate, int64_t& left) {
    for (const Handle& s : running_) {
      if (generating(*s) == generate) schedule(*s, left);
    }
  };
  schedule_all(true, rows_left);
  work_ = {.generating = std::ssize(batch_)};
  const int64_t most = batch_.empty() ? rows_left : std::min(rows_left, prompt_rows_);
  int64_t left = most;
  schedule_all(false, left);
  if (!short_of_memory) admit(left);
  work_.prompt_rows = most - left;
  work_.prompts = running() + waiting() - work_.generating;
  return rows_left - work_.prompt_rows;
}

void Engine::schedule(Sequence& s, int64_t& rows_left) {
  const std::span<const int32_t> ids = pending(s);
  const int64_t n = std::min({std::ssize(ids), rows_left, model_.room(s.slot)});
  if (n == 0) return;
  const bool all = n == std::ssize(ids);
  batch_.push_back({s.slot, ids.first(static_cast<size_t>(n)), all});
  rows_left -= n;
  if (!all) return;
  drawing_.push_back(&s);
  s.fed.assign(1, ids.back());
  s.drawn = 0;
}

// Starts queued sequences while slots, rows and memory are available. One cache page per running sequence
// stays free. A new sequence therefore does not preempt running sequences, and is not preempted immediately.
void Engine::admit(int64_t& rows_left) {
  for (size_t i = 0; i < waiting_.size() && rows_left > 0 && running_.size() < most_running_;) {
    Sequence& s = *waiting_[i];
    const SequenceModel::Prospect prospect = model_.prospect(opening(s), s.request.adapter, s.request.salt);
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

// Returns true if a running sequence is about to compute a large part of the prefix that this sequence needs:
// at least kWorth tokens, or half of the tokens that are not cached.
bool Engine::worth_waiting(const Sequence& s, int64_t known) const {
  constexpr int64_t kWorth = 64;
  const std::span<const int32_t> ids = opening(s);
  for (const Handle& other : running_) {
    if (generating(*other) || other->request.adapter != s.request.adapter ||
        other->request.salt != s.request.salt)
      continue;
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
// Speculation. Draft tokens use the rows and the memory that remain after all other work.

void Engine::speculate(int64_t rows_left) {
  if (!speculator_) return;
  candidates_.clear();
  auto next = drawing_.begin();
  for (const SequenceModel::Append& append : batch_) {
    if (append.wanted == 0) continue;
    Sequence& s = **next++;
    if (append.ids.size() == 1)
      candidates_.push_back({{s.slot, s.ids, most_proposals(s), &s.fed}, &s.acceptance});
  }
  speculator_->propose(candidates_, options_.step_rows - rows_left, rows_left);
  next = drawing_.begin();
  for (SequenceModel::Append& append : batch_) {
    if (append.wanted > 0) extend(append, **next++);
  }
}

// Returns the maximum number of draft tokens. This is the maximum number of tokens minus one, because every
// step also samples a token after the draft.
int64_t Engine::most_proposals(const Sequence& s) const {
  return std::min(remaining(s), model_.room(s.slot)) - 1;
}

// Adds as many draft tokens to the batch as memory allows. Stops before the first draft token that would end
// the sequence, because tokens after it are useless.
void Engine::extend(SequenceModel::Append& append, Sequence& s) {
  const auto ends = [&](int32_t id) {
    return contains(s.request.eos_ids, id) || contains(s.request.stop_ids, id);
  };
  s.fed.erase(std::find_if(s.fed.begin() + 1, s.fed.end(), ends), s.fed.end());
  while (s.fed.size() > 1 && !model_.reserve(s.slot, std::ssize(s.fed)))
    s.fed.resize(s.fed.size() / 2);
  if (s.fed.size() == 1) return;
  append.ids = s.fed;
  append.wanted = std::ssize(s.fed);
  s.proposed += append.wanted - 1;
  counts_.proposed += append.wanted - 1;
}

// ---------------------------------------------------------------------------------------------------
// Results.

void Engine::ask(const Sequence& s, Draw& draw) const {
  const std::span<const int32_t> ids = s.ids;
  const size_t prompt = s.request.prompt.size();
  draw.params = &s.request.sampling;
  draw.row = s.row + static_cast<int64_t>(s.drawn);
  draw.history = {ids.first(prompt), ids.subspan(prompt)};
  draw.random = RandomStream(s.request.seed, RandomSite::sample, ids.size() - prompt, s.request.number);
  draw.logprobs = s.request.logprobs;
  draw.constraint = s.constraint.get();
  draw.remaining = remaining(s);
  draw.end_ids = s.end_ids;
}

// Returns the number of tokens that may still be generated. If the context is full, one more token can be
// sampled.
int64_t Engine::remaining(const Sequence& s) const {
  const Request& r = s.request;
  const int64_t wanted = r.max_tokens - (std::ssize(s.ids) - std::ssize(r.prompt));
  return r.context == ContextPolicy::stop ? std::min(wanted, model_.n_ctx() + 1 - std::ssize(s.ids)) : wanted;
}

// Passes the sampled token to the constraint. Returns false if the constraint fails.
bool Engine::take(Sequence& s, Draw& draw) const {
  if (s.constraint == nullptr || contains(s.end_ids, draw.id)) return true;
  try {
    s.constraint->accept(draw.id);
    return true;
  } catch (const std::exception& e) {
    draw.error = e.what();
    return false;
  }
}

Event Engine::report(Sequence& s, Draw& draw) {
  Event event{.request = s.id, .id = draw.id, .reused = s.reused.value_or(0)};
  const bool expected = ++s.drawn < s.fed.size() && draw.id == s.fed[s.drawn];
  if (draw.id < 0 || !take(s, draw)) {
    event.id = -1;
    event.finish = FinishReason::error;
    event.error = draw.error;
  } else {
    s.ids.push_back(draw.id);
    s.accepted += expected;
    counts_.accepted += expected;
    if (s.request.logprobs >= 0) event.logprobs = &draw.result;
    event.finish = finish_of(s);
  }
  event.proposed = s.proposed;
  event.accepted = s.accepted;
  s.ended = event.finish.has_value();
  if (s.ended) leave_slot(s);
  return event;
}

// Returns true if the sampled token matches the draft token, so that logits for the next token are available.
// Otherwise removes the remaining draft tokens from the slot.
bool Engine::draws_on(Sequence& s) {
  if (s.ended) return false;
  if (s.drawn < s.fed.size() && s.fed[s.drawn] == s.ids.back()) return true;
  if (s.fed.size() == 1) return false;
  if (s.drawn < s.fed.size()) model_.truncate(s.slot, held(s));
  s.acceptance.learn(std::ssize(s.fed) - 1, static_cast<int64_t>(s.drawn) - 1);
  return false;
}

// Returns the number of ids that the slot holds, excluding draft tokens.
int64_t Engine::held(const Sequence& s) const {
  return std::ssize(s.ids) - 1 - static_cast<int64_t>(s.base);
}

std::optional<FinishReason> Engine::finish_of(const Sequence& s) const {
  const Request& r = s.request;
  if (contains(r.eos_ids, s.ids.back())) return FinishReason::eos;
  if (contains(r.stop_ids, s.ids.back())) return FinishReason::stop;
  if (s.constraint != nullptr && s.constraint->complete()) return FinishReason::complete;
  if (std::ssize(s.ids) - std::ssize(r.prompt) >= r.max_tokens) return FinishReason::length;
  if (r.context == ContextPolicy::stop && held(s) >= model_.n_ctx()) return FinishReason::context;
  return std::nullopt;
}

}  // namespace gpt
