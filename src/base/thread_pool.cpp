#include "base/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"

namespace gpt {
namespace {

// Workers spin this long before they sleep: a training step has thousands of short parallel regions,
// and waking a sleeping thread costs tens of microseconds.
constexpr int kSpins = 20000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

struct ThreadPool::State {
  std::vector<std::thread> workers;

  // One job at a time. `epoch` is bumped to publish it; `next` hands out its tasks; `busy` counts the
  // workers that have not yet finished with it.
  void* fn = nullptr;
  Call call = nullptr;
  int64_t n_tasks = 0;
  std::atomic<int64_t> next{0};
  std::atomic<int> busy{0};
  std::atomic<uint64_t> epoch{0};
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  bool spin = true;
  std::mutex mutex;
  std::condition_variable wake;

  void work(int thread) {
    for (int64_t task = next.fetch_add(1, std::memory_order_relaxed); task < n_tasks;
         task = next.fetch_add(1, std::memory_order_relaxed)) {
      call(fn, task, thread);
    }
  }

  void wait_for_epoch(uint64_t seen) {
    if (spin) {
      for (int i = 0; i < kSpins; ++i) {
        if (epoch.load(std::memory_order_acquire) != seen) return;
        relax();
      }
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return epoch.load() != seen; });
    sleepers.fetch_sub(1);
  }

  void worker(int thread) {
    uint64_t seen = 0;
    while (true) {
      wait_for_epoch(seen);
      seen = epoch.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_relaxed)) return;
      work(thread);
      busy.fetch_sub(1, std::memory_order_release);
    }
  }

  void publish() {
    epoch.fetch_add(1);
    if (sleepers.load() > 0) {
      { std::lock_guard lock(mutex); }
      wake.notify_all();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()), size_(threads) {
  if (threads < 1 || threads > 1024) fail_usage("threads must be between 1 and 1024, got {}", threads);
  state_->spin = threads <= available_cpus();  // spinning on a shared CPU only delays the others
  for (int i = 1; i < threads; ++i) {
    state_->workers.emplace_back([state = state_.get(), i] { state->worker(i); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stop.store(true);
  state_->publish();
  for (std::thread& worker : state_->workers)
    worker.join();
}

void ThreadPool::run(int64_t n_tasks, void* fn, Call call) {
  State& s = *state_;
  if (size_ == 1 || n_tasks <= 1) {
    for (int64_t task = 0; task < n_tasks; ++task)
      call(fn, task, 0);
    return;
  }
  s.fn = fn;
  s.call = call;
  s.n_tasks = n_tasks;
  s.next.store(0, std::memory_order_relaxed);
  s.busy.store(size_ - 1, std::memory_order_relaxed);
  s.publish();
  s.work(0);
  for (int spins = 0; s.busy.load(std::memory_order_acquire) > 0; ++spins) {
    s.spin || spins < 100 ? relax() : std::this_thread::yield();
  }
}

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

}  // namespace gpt
