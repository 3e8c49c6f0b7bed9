#include "serve/prompt_chain.h"

#include "serve/api_error.h"

namespace gpt::serve {

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
