#include "serve/models/prompt_task.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "serve/api_error.h"
#include "tensor/convert.h"
#include "tensor/device.h"

namespace gpt::serve {

bool PromptTask::run(int64_t rows) {
  if (!begun_) inference_.reset(slot_, adapter_, salt_);
  begun_ = true;
  const auto left = std::ssize(ids_) - read_;
  const int64_t n = std::min({rows, left, most_rows(), inference_.max_rows(), inference_.room(slot_)});
  if (!cancelled_) {
    if (!inference_.reserve(slot_, n))
      return false;  // sequences of the engine currently use the memory; the task tries again later
    read({slot_, std::span(ids_).subspan(static_cast<size_t>(read_), static_cast<size_t>(n)), n}, read_);
    read_ += n;
    if (n < left) return false;
  }
  inference_.reset(slot_);
  if (!cancelled_) done();
  return true;
}

void PromptTask::fail(const std::exception& error) {
  inference_.reset(slot_);
  on_fail_(error);
}

ScoreTask::ScoreTask(Inference& inference, int slot, Prompt prompt, int64_t k, OnDone on_done, OnFail on_fail)
    : PromptTask(inference, slot, std::move(prompt), std::move(on_fail)),
      k_(std::min(k, inference.config().vocab_size)),
      on_done_(std::move(on_done)),
      selector_(inference.backend(), inference.config().vocab_size) {}

// Limits the logits of a part to 64 MiB.
int64_t ScoreTask::most_rows() const {
  return std::max<int64_t>(1, (int64_t{1} << 24) / inference_.config().vocab_size);
}

void ScoreTask::read(const SequenceModel::Append& part, int64_t first) {
  const int64_t n = std::ssize(part.ids), next = first + 1;
  const int64_t shape[] = {n, inference_.config().vocab_size};
  const TensorView logits =
      logits_.grow(DType::f32, shape, "prompt logits", inference_.backend().device.get());
  inference_.append({&part, 1}, logits);
  const int64_t scored = std::min(n, std::ssize(ids_) - next);  // no id follows the last id
  selector_.rows.clear();
  std::vector<Selector::Token> tokens;
  for (int64_t i = 0; i < scored; ++i) {
    selector_.rows.push_back({.row = i, .k = k_, .log_sum = true});
    tokens.push_back({static_cast<size_t>(i), ids_[static_cast<size_t>(next + i)]});
  }
  if (scored == 0) return;
  selector_.run(logits);
  const std::span<const float> token_logits = selector_.logits(tokens);
  for (size_t row = 0; row < tokens.size(); ++row) {
    const double log_sum = selector_.selection(row).log_sum;
    Logprobs& score = scores_.emplace_back();
    score.chosen = {tokens[row].id, token_logits[row] - log_sum};
    rank(selector_.candidates(row), k_, log_sum, score.top);
  }
}

void EmbedTask::read(const SequenceModel::Append& part, int64_t) {
  const int64_t n = std::ssize(part.ids), c = inference_.config().n_embd;
  const int64_t shape[] = {n, c};
  const DType dtype = inference_.activations();
  const TensorView hidden = hidden_.grow(dtype, shape, "hidden states", inference_.backend().device.get());
  inference_.append_hidden({&part, 1}, hidden);
  const TensorView numbers = numbers_.grow(DType::f32, shape, "hidden states", nullptr);
  const MappedView host(hidden, Access::read);
  convert_matrix(
      {.bytes = {static_cast<const std::byte*>(host->data), dtype_size(dtype) * static_cast<size_t>(n * c)},
       .dtype = dtype,
       .rows = n,
       .cols = c},
      numbers);
  for (int64_t i = 0; i < n; ++i) {
    const float* row = numbers.row<float>(i);
    for (size_t j = 0; j < sums_.size(); ++j)
      sums_[j] += row[j];
  }
}

void EmbedTask::done() {
  double squares = 0;
  for (const double x : sums_)
    squares += x * x;
  const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;
  std::vector<float> embedding;
  for (const double x : sums_)
    embedding.push_back(static_cast<float>(x * scale));
  on_done_(std::move(embedding));
}

PromptChain::PromptChain(EngineWorker& worker, std::shared_ptr<Call> call, size_t count, Make make,
                         std::function<void()> finish)
    : worker_(worker),
      call_(std::move(call)),
      count_(count),
      make_(std::move(make)),
      finish_(std::move(finish)) {}

void PromptChain::start() {
  call_->on_closed([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->cancel();
  });
  next();
}

void PromptChain::next() {
  if (at_ == count_) {
    release();
    return finish_();
  }
  const auto self = shared_from_this();
  const auto task = make_(
      at_++, [self] { self->next(); },
      [self](const std::exception& error) {
        self->release();
        self->call_->send(failure_of(error).reply());
      });
  {
    const std::lock_guard lock(mutex_);
    if (cancelled_) return;
    task_ = task;
  }
  try {
    worker_.submit_side(task, call_->client);
  } catch (...) {
    release();
    throw;
  }
}

// The task holds a reference to the chain, so the chain must not keep the task.
std::shared_ptr<PromptTask> PromptChain::release() {
  const std::lock_guard lock(mutex_);
  return std::exchange(task_, nullptr);
}

void PromptChain::cancel() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  if (const auto task = release()) task->cancel();
}

}  // namespace gpt::serve
