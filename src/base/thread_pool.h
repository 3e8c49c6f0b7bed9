#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace gpt {

// Splits task numbers [0, n) into one part per thread. A thread takes the tasks of its own part in order,
// then the remaining tasks of other parts. `take` must be called exactly n times in total, by any threads.
class TaskStreams {
 public:
  TaskStreams(int64_t n, int threads) : n_(n), parts_(threads < kMost ? threads : kMost) {
    for (int part = 0; part < parts_; ++part)
      next_[part].task.store(begin(part), std::memory_order_relaxed);
  }
  int64_t take(int thread) {
    for (int i = 0; i < parts_; ++i) {
      const int part = (thread + i) % parts_;
      std::atomic<int64_t>& next = next_[part].task;
      if (next.load(std::memory_order_relaxed) >= begin(part + 1)) continue;
      const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task < begin(part + 1)) return task;
    }
    __builtin_unreachable();  // each of the n calls finds one of the n tasks
  }

 private:
  static constexpr int kMost = 16;
  int64_t begin(int part) const { return n_ * part / parts_; }

  struct alignas(64) Next {
    std::atomic<int64_t> task;
  };
  int64_t n_;
  int parts_;
  Next next_[kMost];
};

// A pool of threads that run numbered tasks.
//
// Sharing. ThreadPool(n) starts n - 1 workers. ThreadPool(shared, k) starts no threads. Its calls use up to k
// - 1 workers of `shared`. The workers live as long as any pool that uses them. Pools that share workers may
// run at the same time. A caller always works on its own tasks, and workers join the calls that have tasks
// left, so no call waits for another. With m concurrent callers, ThreadPool(n) uses at most n - 1 + m
// threads. (Up to 32 pools run concurrently. Each additional pool takes turns with one of these pools.)
//
// Order. Tasks of a call start in the order of their numbers: when a task starts, every task with a lower
// number has already been started by a thread that runs it to completion. So a task may wait for tasks with
// lower numbers, as in the weight gradient. parallel_streams gives no such guarantee.
//
// Results. Any thread may run a task, so the result of a task must depend only on the task number. Results
// then do not depend on the number of threads or on concurrent calls.
class ThreadPool {
 public:
  // threads: 1 to 1024, the calling thread included. Throws Error if the system refuses to start a thread.
  explicit ThreadPool(int threads);
  // threads: 1 to shared.size().
  ThreadPool(const ThreadPool& shared, int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Calls fn(task, thread) for every task in [0, n_tasks), where `thread` is in [0, size()). Returns when all
  // tasks are done. fn must not throw and must not call parallel_for. Only one thread may call a pool at a
  // time.
  template <class F>
  void parallel_for(int64_t n_tasks, F&& fn) {
    using Function = std::remove_reference_t<F>;
    run(n_tasks, const_cast<void*>(static_cast<const void*>(&fn)),
        [](void* f, int64_t task, int thread) { (*static_cast<Function*>(f))(task, thread); });
  }

  // Runs tasks like parallel_for. Intended for tasks that read memory in the order of the task numbers. Each
  // thread runs consecutive tasks where possible, so that the hardware prefetcher sees a few long streams.
  template <class F>
  void parallel_streams(int64_t n_tasks, F&& fn) {
    TaskStreams streams(n_tasks, size_);
    parallel_for(n_tasks, [&](int64_t, int thread) { fn(streams.take(thread), thread); });
  }

 private:
  using Call = void (*)(void*, int64_t, int);
  void join();
  void run(int64_t n_tasks, void* fn, Call call);

  class Workers;
  std::shared_ptr<Workers> workers_;
  int size_;
  int slot_ = 0;          // index of the slot in `workers_` for the calls of this pool
  int first_worker_ = 0;  // index of the worker that acts as thread 1
};

// Returns the number of CPUs that this process may use (its affinity mask), at least 1.
int available_cpus();

}  // namespace gpt
