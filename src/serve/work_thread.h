#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gpt::serve {

// A thread that does what it is given, in order.
class WorkThread {
 public:
  // At most so many wait; more are not taken.
  explicit WorkThread(size_t most_waiting);
  ~WorkThread();  // does what it has been given, then ends
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;

  // Any thread; false where too many wait. The work must not throw.
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
