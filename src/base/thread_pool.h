#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace gpt {

// A fixed set of threads that run numbered tasks. Which thread runs which task is not determined, so
// the result of a task must depend on its number alone; then no result depends on the thread count.
class ThreadPool {
 public:
  // threads >= 1, the calling thread included. Threads are created here and joined in the destructor.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Calls fn(task, thread) for every task in [0, n_tasks), thread in [0, size()); returns when all are
  // done. fn must not throw and must not call parallel_for. Only one thread may call this at a time.
  template <class F>
  void parallel_for(int64_t n_tasks, F&& fn) {
    using Function = std::remove_reference_t<F>;
    run(n_tasks, const_cast<void*>(static_cast<const void*>(&fn)),
        [](void* f, int64_t task, int thread) { (*static_cast<Function*>(f))(task, thread); });
  }

 private:
  using Call = void (*)(void*, int64_t, int);
  void run(int64_t n_tasks, void* fn, Call call);

  struct State;
  std::unique_ptr<State> state_;
  int size_;
};

// The number of CPUs this process may use (its affinity mask), at least 1.
int available_cpus();

}  // namespace gpt
