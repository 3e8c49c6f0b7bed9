#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/thread.h"

namespace gpt {
namespace {

// Number of iterations that workers spin before they sleep. A training step has thousands of short parallel
// regions, and waking a sleeping thread takes tens of microseconds.
constexpr int kSpins = 20000;
constexpr int kMostThreads = 1024;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

// Each pool is assigned a slot. A slot holds one call at a time: the tasks of `call` up to `end`. A thread
// owns a task once it has taken a ticket for it. The caller waits for the tasks that were taken, but not for
// workers without a task. Such a worker may be asleep, or another program may be using its CPU.
class ThreadPool::Workers {
 public:
  explicit Workers(int n);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  struct Place {
    int slot, first_worker;
  };
  Place add_pool(int threads);
  void remove_pool(int slot);
  // Runs tasks [begin, end), at most UINT32_MAX of them.
  void run(const ThreadPool& pool, int64_t begin, int64_t end, void* fn, Call call);

 private:
  static constexpr int kSlots = 32;

  struct alignas(64) Slot {
    // Upper half: sequence number of the call. Lower half: number of tasks of the call that no thread has
    // taken yet.
    std::atomic<uint64_t> tickets{0};
    // The number of threads of the call, and the worker that acts as thread 1. Both values are written only
    // while there are no tickets. Values that are read after `tickets` belong to the same call, unless the
    // next compare-exchange of `tickets` fails.
    std::atomic<int> threads{1}, first_worker{0};
    // These members are written only while there are no tickets. Only threads that own a task read these
    // members.
    void* fn = nullptr;
    Call call = nullptr;
    int64_t end = 0;
    alignas(64) std::atomic<int64_t> done{0};  // number of finished tasks of the call
    std::mutex mutex;                          // held during a call, because pools may share a slot

    static uint32_t left(uint64_t ticket) { return static_cast<uint32_t>(ticket); }
  };

  int thread_of(int worker, const Slot& slot) const;
  void work(Slot& slot, int worker);
  void loop(int worker);
  bool has_news(int worker) const;
  void wait_for_news(int worker);
  void wake_sleepers();
  void stop();

  const int size_;
  const bool spin_;
  Slot slots_[kSlots];
  std::atomic<int> used_slots_{0};  // slots from this index on are free
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  int pools_[kSlots] = {};  // number of pools by slot, guarded by mutex_
  int next_worker_ = 0;     // first worker of the next pool, guarded by mutex_
  std::vector<std::thread> threads_;
};

// If there are more threads than CPUs, workers do not spin, because spinning would delay the other threads.
ThreadPool::Workers::Workers(int n) : size_(n), spin_(n < available_cpus()) {
  threads_.reserve(static_cast<size_t>(n));
  for (int i = 1; i <= n; ++i) {
    try {
      threads_.push_back(start_thread("threads", [this, i] { loop(i); }));
    } catch (const std::exception&) {
      stop();
      throw;
    }
  }
}

void ThreadPool::Workers::stop() {
  stop_.store(true);
  wake_sleepers();
  for (std::thread& thread : threads_)
    thread.join();
}

// Assigns a slot and a first worker to a pool. If possible, pools that use only some of the workers are
// assigned different workers.
ThreadPool::Workers::Place ThreadPool::Workers::add_pool(int threads) {
  const std::lock_guard lock(mutex_);
  const auto slot = static_cast<int>(std::ranges::min_element(pools_) - pools_);
  ++pools_[slot];
  used_slots_ = std::max<int>(used_slots_, slot + 1);
  const int first = next_worker_;
  if (size_ > 0) next_worker_ = (first + threads - 1) % size_;
  return {slot, first};
}

void ThreadPool::Workers::remove_pool(int slot) {
  const std::lock_guard lock(mutex_);
  --pools_[slot];
  while (used_slots_ > 0 && pools_[used_slots_ - 1] == 0)
    --used_slots_;
}

// Returns the thread index of a worker in the call of the slot. The caller is worker 0 and has thread index
// 0. A worker may join the call if its index is less than the number of threads of the call.
int ThreadPool::Workers::thread_of(int worker, const Slot& slot) const {
  if (worker == 0) return 0;
  const int after_first = worker - 1 - slot.first_worker.load(std::memory_order_relaxed);
  return 1 + (after_first < 0 ? after_first + size_ : after_first);
}

void ThreadPool::Workers::work(Slot& slot, int worker) {
  int64_t finished = 0;
  uint64_t ticket = slot.tickets.load(std::memory_order_acquire);
  while (Slot::left(ticket) > 0) {
    const int thread = thread_of(worker, slot);
    if (thread >= slot.threads.load(std::memory_order_relaxed)) break;
    if (!slot.tickets.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                            std::memory_order_acquire))
      continue;
    slot.call(slot.fn, slot.end - Slot::left(ticket), thread);
    // The call cannot end before the tasks of this thread are counted in `done`.
    ++finished;
    --ticket;
  }
  if (finished > 0) slot.done.fetch_add(finished, std::memory_order_release);
}

bool ThreadPool::Workers::has_news(int worker) const {
  const int n = used_slots_.load();
  for (int i = 0; i < n; ++i) {
    const Slot& slot = slots_[i];
    if (Slot::left(slot.tickets.load()) > 0 && thread_of(worker, slot) < slot.threads.load()) return true;
  }
  return stop_.load();
}

void ThreadPool::Workers::wait_for_news(int worker) {
  for (int i = 0; spin_ && i < kSpins; ++i) {
    if (has_news(worker)) return;
    relax();
  }
  std::unique_lock lock(mutex_);
  sleepers_.fetch_add(1);
  wake_.wait(lock, [&] { return has_news(worker); });
  sleepers_.fetch_sub(1);
}

// Each worker starts with a different slot, so that the workers spread over the calls.
void ThreadPool::Workers::loop(int worker) {
  while (!stop_.load()) {
    const int n = used_slots_.load();
    for (int i = 0; i < n; ++i)
      work(slots_[(worker + i) % n], worker);
    wait_for_news(worker);
  }
}

void ThreadPool::Workers::wake_sleepers() {
  if (sleepers_.load() == 0) return;
  { std::lock_guard lock(mutex_); }
  wake_.notify_all();
}

void ThreadPool::Workers::run(const ThreadPool& pool, int64_t begin, int64_t end, void* fn, Call call) {
  Slot& slot = slots_[pool.slot_];
  const std::lock_guard lock(slot.mutex);
  slot.fn = fn;
  slot.call = call;
  slot.end = end;
  slot.threads.store(pool.size_, std::memory_order_relaxed);
  slot.first_worker.store(pool.first_worker_, std::memory_order_relaxed);
  slot.done.store(0, std::memory_order_relaxed);
  const uint64_t number = (slot.tickets.load(std::memory_order_relaxed) >> 32) + 1;
  slot.tickets.store(number << 32 | static_cast<uint64_t>(end - begin));
  wake_sleepers();
  work(slot, 0);
  for (int spins = 0; slot.done.load(std::memory_order_acquire) < end - begin; ++spins) {
    spins < (spin_ ? 2000 : 100) ? relax() : std::this_thread::yield();
  }
}

ThreadPool::ThreadPool(int threads) : size_(threads) {
  if (threads < 1 || threads > kMostThreads)
    fail_usage("threads must be between 1 and {}, got {}", kMostThreads, threads);
  workers_ = std::make_shared<Workers>(threads - 1);
  join();
}

ThreadPool::ThreadPool(const ThreadPool& shared, int threads) : workers_(shared.workers_), size_(threads) {
  if (threads < 1 || threads > shared.size_)
    fail_usage("threads must be between 1 and {}, got {}", shared.size_, threads);
  join();
}

void ThreadPool::join() {
  const Workers::Place place = workers_->add_pool(size_);
  slot_ = place.slot;
  first_worker_ = place.first_worker;
}

ThreadPool::~ThreadPool() {
  workers_->remove_pool(slot_);
}

void ThreadPool::run(int64_t n_tasks, void* fn, Call call) {
  if (size_ == 1 || n_tasks <= 1) {
    for (int64_t task = 0; task < n_tasks; ++task)
      call(fn, task, 0);
    return;
  }
  for (int64_t begin = 0; begin < n_tasks; begin += UINT32_MAX)
    workers_->run(*this, begin, std::min<int64_t>(begin + UINT32_MAX, n_tasks), fn, call);
}

int available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

}  // namespace gpt
