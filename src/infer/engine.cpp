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
  if (r.adapter < -1 || r.adapter >= model.adapters())
    fail_parameter("adapter", "expected one of the model's {}, found {}", model.adapters(), r.adapter);
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

Engine::Engine(SequenceModel& model, Options options)
    : model_(model),
      options_(options),
      sampler_(model.backend(), model.vocab_size()),
      // A step has a row at least for every running sequence.
      most_running_(static_cast<size_t>(std::min<int64_t>(model.slots(), options.step_rows))),
      draws_(most_running_) {
  GPT_ASSERT(options.step_rows >= 1 && model.slots() >= 1);
  for (int slot = model.slots(); slot-- > 0;) {
    model.reset(slot);
    free_slots_.push_back(slot);
  }
  drawing_.reserve(most_running_);
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
  leave_slot(**found);
  running_.erase(found);
  return true;
}

std::span<const Event> Engine::step() {
  GPT_ASSERT(!idle());
  schedule();
  const int64_t shape[] = {std::ssize(drawing_), model_.vocab_size()};
  const TensorView logits = logits_.grow(DType::f32, shape, "logits", model_.backend().memory);
  model_.forward(batch_, logits);
  ++counts_.steps;
  for (const SequenceModel::Append& append : batch_)
    counts_.computed += std::ssize(append.ids);
  for (size_t i = 0; i < drawing_.size(); ++i)
    ask(*drawing_[i], draws_[i]);
  if (!drawing_.empty()) sampler_.draw(logits, std::span(draws_).first(drawing_.size()));
  events_.clear();
  for (size_t i = 0; i < drawing_.size(); ++i)
    events_.push_back(report(*drawing_[i], draws_[i]));
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
  model_.reset(slot, s.request.adapter, s.request.salt);
  const int64_t known = model_.reuse(slot, opening(s));
  counts_.reused += known;
  if (!s.reused) s.reused = known;
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
  drawing_.clear();
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
  if (all) drawing_.push_back(&s);
}

// Starts sequences while there is room. A block for each running sequence is left free, so that those who
// come do not drive out others, or are driven out, at once.
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

// Whether a running sequence is about to compute a good part of what this one still needs: half of it, or
// more than a few rows of a step.
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
// Results.

void Engine::ask(const Sequence& s, Draw& draw) const {
  const std::span<const int32_t> ids = s.ids;
  const size_t prompt = s.request.prompt.size();
  draw.params = &s.request.sampling;
  draw.history = {ids.first(prompt), ids.subspan(prompt)};
  draw.random = RandomStream(s.request.seed, RandomSite::sample, ids.size() - prompt, s.request.number);
  draw.logprobs = s.request.logprobs;
  draw.constraint = s.constraint.get();
  draw.remaining = remaining(s);
  draw.end_ids = s.end_ids;
}

// Tokens that the output may still have. A full context gives one more.
int64_t Engine::remaining(const Sequence& s) const {
  const Request& r = s.request;
  const int64_t wanted = r.max_tokens - (std::ssize(s.ids) - std::ssize(r.prompt));
  return r.context == ContextPolicy::stop ? std::min(wanted, model_.n_ctx() + 1 - std::ssize(s.ids)) : wanted;
}

// Tells the constraint what was drawn; false where it fails.
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
  if (draw.id < 0 || !take(s, draw)) {
    event.id = -1;
    event.finish = FinishReason::error;
    event.error = draw.error;
  } else {
    s.ids.push_back(draw.id);
    if (s.request.logprobs >= 0) event.logprobs = &draw.result;
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
  if (s.constraint != nullptr && s.constraint->complete()) return FinishReason::complete;
  if (std::ssize(s.ids) - std::ssize(r.prompt) >= r.max_tokens) return FinishReason::length;
  if (context_full(model_, s.slot, r.context)) return FinishReason::context;
  return std::nullopt;
}

}  // namespace gpt
