#include "base/thread_pool.h"

#include <sched.h>

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

// One job at a time: tasks [0, n_tasks) of `call`. A thread owns a task once it has taken it off `tickets`;
// the caller waits for the tasks that were taken, not for workers that came too late to get one: they may be
// asleep, or another program may have their CPU.
struct ThreadPool::State {
  std::vector<std::thread> workers;

  // Written while there are no tickets, read by owners of a task alone.
  void* fn = nullptr;
  Call call = nullptr;
  int64_t n_tasks = 0;

  // The upper half is the number of the job, the lower half how many of its tasks nobody has taken.
  std::atomic<uint64_t> tickets{0};
  std::atomic<int64_t> done{0};  // tasks of the job that are finished
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  bool spin = true;
  std::mutex mutex;
  std::condition_variable wake;

  static uint32_t left(uint64_t ticket) { return static_cast<uint32_t>(ticket); }

  void work(int thread) {
    int64_t finished = 0;
    uint64_t ticket = tickets.load(std::memory_order_acquire);
    while (left(ticket) > 0) {
      if (!tickets.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                         std::memory_order_acquire))
        continue;
      call(fn, n_tasks - left(ticket), thread);
      // The job cannot end before the tasks of this thread are counted.
      ++finished;
      --ticket;
    }
    if (finished > 0) done.fetch_add(finished, std::memory_order_release);
  }

  bool has_news() const { return left(tickets.load()) > 0 || stop.load(); }

  void wait_for_news() {
    for (int i = 0; spin && i < kSpins; ++i) {
      if (has_news()) return;
      relax();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1);
    wake.wait(lock, [&] { return has_news(); });
    sleepers.fetch_sub(1);
  }

  void worker(int thread) {
    while (!stop.load()) {
      work(thread);
      wait_for_news();
    }
  }

  void wake_sleepers() {
    if (sleepers.load() == 0) return;
    { std::lock_guard lock(mutex); }
    wake.notify_all();
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
  state_->wake_sleepers();
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
  GPT_ASSERT(n_tasks <= UINT32_MAX);
  s.fn = fn;
  s.call = call;
  s.n_tasks = n_tasks;
  s.done.store(0, std::memory_order_relaxed);
  const uint64_t job = (s.tickets.load(std::memory_order_relaxed) >> 32) + 1;
  s.tickets.store(job << 32 | static_cast<uint64_t>(n_tasks));
  s.wake_sleepers();
  s.work(0);
  for (int spins = 0; s.done.load(std::memory_order_acquire) < n_tasks; ++spins) {
    spins < (s.spin ? 2000 : 100) ? relax() : std::this_thread::yield();
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
