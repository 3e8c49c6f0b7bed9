#include "infer/selector.h"

#include <algorithm>

#include "base/error.h"

namespace gpt {
namespace {

// Returns true if the caller reads the scores of all tokens.
bool needs_scores(const SelectRow& row) {
  return row.k == 0 && !row.log_sum;
}

}  // namespace

Selector::Selector(const Backend& backend, int64_t vocab_size)
    : backend_(backend),
      vocab_size_(vocab_size),
      workspace_(backend.kernels.select_candidates_scratch(vocab_size), backend.pool.size(),
                 backend.device.get()),
      device_rows_(backend.device.get()),
      device_changes_(backend.device.get()),
      device_allowed_(backend.device.get()),
      device_selections_(backend.device.get()),
      device_candidates_(backend.device.get()) {}

void Selector::run(const TensorView& logits) {
  GPT_ASSERT(logits.device == backend_.view_device() && logits.cols() == vocab_size_);
  logits_ = logits;
  int64_t scored = 0;
  capacity_ = 0;
  for (SelectRow& r : rows) {
    if (r.changes > 0 || r.allowed_row >= 0) r.scores_row = scored++;
    capacity_ = std::max(capacity_, r.k);
  }
  const int64_t shape[] = {scored, vocab_size_};
  const TensorView scores = scores_.grow(DType::f32, shape, "scores", backend_.device.get());
  selections_.resize(rows.size());
  const DeviceSpan<const SelectRow> device_rows = device_rows_.upload(rows);
  const DeviceSpan<const ScoreChange> device_changes = device_changes_.upload(changes);
  const DeviceSpan<const uint64_t> device_allowed = device_allowed_.upload(allowed);
  for (;;) {  // repeats with a larger capacity if more than k tokens tie
    candidates_.resize(rows.size() * static_cast<size_t>(capacity_));
    backend_.kernels.select_candidates(backend_.context(workspace_.scratch()),
                                       {.logits = logits,
                                        .rows = device_rows,
                                        .changes = device_changes,
                                        .allowed = device_allowed,
                                        .scores = scores,
                                        .capacity = capacity_,
                                        .candidates = device_candidates_.share(candidates_, Access::write),
                                        .selections = device_selections_.share(selections_, Access::write)});
    device_candidates_.enqueue_download(candidates_);
    device_selections_.enqueue_download(selections_);
    enqueue_scores();
    backend_.device->synchronize();
    int64_t most = 0;
    for (const Selection& s : selections_)
      most = std::max(most, s.count);
    if (most <= capacity_) return;
    capacity_ = most;
  }
}

const Selection& Selector::selection(size_t i) const {
  const Selection& s = selections_[i];
  if (s.not_finite < 0) return s;
  fail(
      "logits: expected finite values, found {} for token {}: the weights of the model are damaged or "
      "overflow; check them with 'gpt verify'",
      *MappedView(device_logit({i, s.not_finite}), Access::read)->as<float>(), s.not_finite);
}

std::span<TokenScore> Selector::candidates(size_t i) {
  return std::span(candidates_)
      .subspan(i * static_cast<size_t>(capacity_), static_cast<size_t>(selections_[i].count));
}

TensorView Selector::device_scores(const SelectRow& r) const {
  if (r.scores_row < 0) return logits_.slice_rows(r.row, 1);
  const int64_t shape[] = {1, vocab_size_};
  return scores_.view(r.scores_row * vocab_size_ * static_cast<int64_t>(sizeof(float)), DType::f32, shape);
}

TensorView Selector::device_logit(const Token& token) const {
  return logits_.slice_rows(rows[token.row].row, 1).slice_cols(token.id, 1);
}

void Selector::enqueue_scores() {
  const bool copies = !backend_.device->is_host();
  if (copies)
    score_copies_.resize(static_cast<size_t>(std::ranges::count_if(rows, needs_scores) * vocab_size_));
  float* copy = score_copies_.data();
  host_scores_.assign(rows.size(), nullptr);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!needs_scores(rows[i])) continue;
    const TensorView scores = device_scores(rows[i]);
    host_scores_[i] = copies ? copy : scores.as<float>();
    if (!copies) continue;
    enqueue_copy(scores, make_view(copy, {1, vocab_size_}));
    copy += vocab_size_;
  }
}

std::span<const float> Selector::scores(size_t i) const {
  GPT_ASSERT(host_scores_[i] != nullptr);
  return {host_scores_[i], static_cast<size_t>(vocab_size_)};
}

std::span<const float> Selector::logits(std::span<const Token> tokens) {
  token_logits_.resize(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i)
    enqueue_copy(device_logit(tokens[i]), make_view(&token_logits_[i], {1, 1}));
  backend_.device->synchronize();
  return token_logits_;
}

}  // namespace gpt
