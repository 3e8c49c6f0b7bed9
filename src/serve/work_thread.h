#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gpt::serve {

// A thread that runs queued functions in order.
class WorkThread {
 public:
  // `most_waiting` is the maximum number of queued functions.
  explicit WorkThread(size_t most_waiting);
  ~WorkThread();  // runs the queued functions, then ends
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // Queues a function, which must not throw. Returns false if the queue is full. Thread-safe.
  bool add(std::function<void()> work);

 private:
  void loop();

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace gpt::serve
