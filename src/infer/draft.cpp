#include "infer/draft.h"

#include <algorithm>

namespace gpt {

DraftProposer::DraftProposer(SequenceModel& model, int64_t vocab_size, int64_t step_rows)
    : model_(model),
      vocab_size_(std::min(vocab_size, model.vocab_size())),
      step_rows_(std::min(step_rows, model.max_rows())),
      sampler_(model.backend(), model.vocab_size()),
      greedy_{.temperature = 0},
      slots_(static_cast<size_t>(model.slots())),
      draws_(slots_.size()) {
  for (int slot = 0; slot < model.slots(); ++slot)
    model.reset(slot);
  for (std::vector<const Ask*>* list : {&active_, &next_})
    list->reserve(slots_.size());
  batch_.reserve(slots_.size());
}

void DraftProposer::forget(int slot) {
  if (!at(slot).open) return;
  model_.reset(slot);
  at(slot).open = false;
}

// Returns false if the draft model cannot follow the sequence: the sequence exceeds the draft model's context
// or memory, or contains ids outside the draft model's vocabulary.
bool DraftProposer::has(const Ask& ask) {
  if (!model_.can_slide() && std::ssize(ask.ids) > model_.n_ctx()) return false;
  if (at(ask.slot).open) return true;
  return model_.prospect(ask.ids).blocks <= model_.available_blocks() &&
         std::ranges::all_of(ask.ids, [&](int32_t id) { return id < model_.vocab_size(); });
}

void DraftProposer::open(const Ask& ask) {
  Slot& s = at(ask.slot);
  if (s.open) return;
  model_.reset(ask.slot);
  model_.reuse(ask.slot, ask.ids);
  s.open = true;
  s.certain = ask.ids.size();
  s.guessed.clear();
  s.guessed.reserve(static_cast<size_t>(kMostProposals));
}

// Removes rejected draft tokens from the slot. The last id of the sequence is always fed again to get the
// logits after it.
void DraftProposer::take_back(const Ask& ask) {
  Slot& s = at(ask.slot);
  const std::span<const int32_t> drawn = ask.ids.subspan(s.certain);
  const auto right = std::ranges::mismatch(s.guessed, drawn).in2 - drawn.begin();
  const auto known = std::min(std::ssize(ask.ids) - 1, static_cast<int64_t>(s.certain) + right);
  if (model_.length(ask.slot) > model_.n_ctx() && model_.length(ask.slot) > known) {
    forget(ask.slot);  // the window has slid past the ids to keep, so the slot restarts; this only happens
                       // after a failed step
    return open(ask);
  }
  if (model_.length(ask.slot) > known) model_.truncate(ask.slot, known);
  s.certain = ask.ids.size();
  s.guessed.clear();
}

// Adds the ids that the slot lacks to the batch, as far as rows and memory allow. Returns true if the slot
// will then hold the whole sequence, so that its next token can be sampled.
bool DraftProposer::follow(const Ask& ask, int64_t& rows_left) {
  const auto lacking = ask.ids.subspan(static_cast<size_t>(model_.length(ask.slot)));
  const auto n = std::min({std::ssize(lacking), rows_left, model_.room(ask.slot)});
  const auto known = [&](int32_t id) { return id < model_.vocab_size(); };
  const auto ids = lacking.first(static_cast<size_t>(std::max<int64_t>(n, 0)));
  if (ids.empty()) return false;
  if (!std::ranges::all_of(ids, known) || !model_.reserve(ask.slot, n)) {
    forget(ask.slot);
    return false;
  }
  const bool all = ids.size() == lacking.size();
  batch_.push_back({ask.slot, ids, all});
  rows_left -= n;
  return all;
}

void DraftProposer::propose(std::span<const Ask> asks) {
  batch_.clear();
  active_.clear();
  int64_t rows_left = step_rows_;
  for (const Ask& ask : asks) {
    open(ask);
    take_back(ask);
    if (follow(ask, rows_left)) active_.push_back(&ask);
  }
  while (!batch_.empty()) {
    draw();
    feed_guesses();
  }
}

// Runs the batch and appends the most likely token of each active sequence to its result.
void DraftProposer::draw() {
  const int64_t shape[] = {std::ssize(active_), model_.vocab_size()};
  const TensorView logits = logits_.grow(DType::f32, shape, "logits", model_.backend().device.get());
  model_.forward(batch_, logits);
  const std::span draws = std::span(draws_).first(active_.size());
  for (Draw& draw : draws)
    draw.params = &greedy_;
  if (!draws.empty()) sampler_.draw(logits, draws);
  next_.clear();
  for (size_t i = 0; i < active_.size(); ++i) {
    const Ask& ask = *active_[i];
    if (draws[i].id < 0 || draws[i].id >= vocab_size_)
      continue;  // the logits are not finite, or the engine's model does not have this id
    ask.result->push_back(draws[i].id);
    next_.push_back(&ask);
  }
}

// Builds the next batch. The batch contains the last draft token of every sequence that may receive another
// draft token.
void DraftProposer::feed_guesses() {
  batch_.clear();
  active_.clear();
  for (const Ask* ask : next_) {
    const std::vector<int32_t>& guesses = *ask->result;
    Slot& s = at(ask->slot);
    if (std::ssize(s.guessed) + 1 >= ask->most || model_.length(ask->slot) >= model_.n_ctx()) continue;
    if (!model_.reserve(ask->slot, 1)) continue;
    s.guessed.push_back(guesses.back());
    batch_.push_back({ask->slot, std::span(guesses).last(1), 1});
    active_.push_back(ask);
  }
}

}  // namespace gpt
