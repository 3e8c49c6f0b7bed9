#include "serve/work_thread.h"

#include "base/thread.h"

namespace gpt::serve {

WorkThread::WorkThread(size_t most_waiting)
    : most_waiting_(most_waiting), thread_(start_thread("serving", [this] { loop(); })) {}

WorkThread::~WorkThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

bool WorkThread::add(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() >= most_waiting_) return false;
    waiting_.push_back(std::move(work));
  }
  wake_.notify_one();
  return true;
}

void WorkThread::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // releases captured objects without holding the lock
    lock.lock();
  }
}

}  // namespace gpt::serve
