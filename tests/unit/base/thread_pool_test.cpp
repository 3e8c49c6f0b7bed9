#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "base/error.h"
#include "support/names.h"
#include "support/sanitizer.h"

namespace gpt {
namespace {

// Every task runs once on a thread of the pool. Pool sizes range up to more than twice the number of CPUs.
TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 3, 5, 8, 2 * available_cpus() + 1}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t n : {0, 1, 2, 7, 64, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(n));
      std::atomic<int> strangers = 0;
      pool.parallel_for(n, [&](int64_t task, int thread) {
        ++runs[static_cast<size_t>(task)];
        if (thread < 0 || thread >= threads) ++strangers;
      });
      for (const std::atomic<int>& count : runs)
        ASSERT_EQ(count, 1) << threads << " threads, " << n << " tasks";
      EXPECT_EQ(strangers, 0);
    }
  }
}

// Every task index is taken once, and each stream takes the tasks of its own part first.
TEST(TaskStreams, TakeEveryTaskOnce) {
  for (const auto& [n, threads] : {std::pair<int64_t, int>{1, 3}, {2, 7}, {100, 1}, {1001, 4}, {64, 40}}) {
    TaskStreams streams(n, threads);
    std::vector<int> taken(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      ++taken[static_cast<size_t>(streams.take(static_cast<int>(i * i) % threads))];
    EXPECT_EQ(taken, std::vector<int>(static_cast<size_t>(n), 1)) << n << " tasks, " << threads << " threads";
  }
  TaskStreams streams(10, 2);
  std::vector<int64_t> order;
  for (int i = 0; i < 10; ++i)
    order.push_back(streams.take(1));
  EXPECT_EQ(order, (std::vector<int64_t>{5, 6, 7, 8, 9, 0, 1, 2, 3, 4}));
}

TEST(ThreadPool, StreamsRunEveryTaskOnce) {
  for (const int threads : {1, 2, 3, 20}) {
    ThreadPool pool(threads);
    std::vector<std::atomic<int>> runs(300);
    pool.parallel_streams(300, [&](int64_t task, int thread) {
      EXPECT_LT(thread, threads);
      ++runs[static_cast<size_t>(task)];
    });
    for (const std::atomic<int>& n : runs)
      EXPECT_EQ(n, 1);
  }
}

TEST(ThreadPool, AThreadRunsOneTaskAtATime) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> shared = false;
  for (int round = 0; round < 50; ++round) {
    pool.parallel_for(40, [&](int64_t, int thread) {
      if (inside[static_cast<size_t>(thread)].fetch_add(1) != 0) shared = true;
      inside[static_cast<size_t>(thread)].fetch_sub(1);
    });
  }
  EXPECT_FALSE(shared);
}

// Runs thousands of short parallel regions of varying size, as in a training step. Each region must see the
// writes of the previous one.
TEST(ThreadPool, ManySmallJobsSeeEachOthersResults) {
  for (int threads : {2, 3}) {
    ThreadPool pool(threads);
    std::vector<int64_t> values(97);
    int64_t expected = 0;
    for (int64_t round = 1; round <= 2000; ++round) {
      const int64_t n = round % 97 + 1;
      pool.parallel_for(n, [&](int64_t task, int) { values[static_cast<size_t>(task)] += round; });
      for (int64_t task = 0; task < n; ++task)
        expected += round;
    }
    int64_t sum = 0;
    for (int64_t v : values)
      sum += v;
    EXPECT_EQ(sum, expected);
  }
}

TEST(ThreadPool, PoolsComeAndGo) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(i % 4 + 1);
    if (i % 3 == 0) continue;  // some pools are never used
    std::atomic<int64_t> sum = 0;
    pool.parallel_for(10, [&](int64_t task, int) { sum += task; });
    EXPECT_EQ(sum, 45);
  }
}

TEST(ThreadPool, TwoPoolsDoNotDisturbEachOther) {
  ThreadPool a(2), b(3);
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < 100; ++i) {
    a.parallel_for(5, [&](int64_t task, int) { sum += task; });
    b.parallel_for(6, [&](int64_t task, int) { sum += task; });
  }
  EXPECT_EQ(sum, 100 * (10 + 15));
}

int64_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

TEST(ThreadPool, ATaskMayWaitForLowerNumbers) {
  ThreadPool all(4), some(all, 3);
  for (ThreadPool* pool : {&all, &some}) {
    std::vector<std::atomic<bool>> done(300);
    pool->parallel_for(std::ssize(done), [&](int64_t task, int) {
      const auto t = static_cast<size_t>(task);
      while (t > 0 && !done[t - 1])
        std::this_thread::yield();
      done[t] = true;
    });
    EXPECT_TRUE(done.back());
  }
}

TEST(ThreadPool, PoolsThatShareWorkersStartNoThreads) {
  const ThreadPool shared(4);
  const int64_t before = threads_of_process();
  std::deque<ThreadPool> pools;
  for (int i = 0; i < 10; ++i)
    pools.emplace_back(shared, 4);
  std::atomic<int64_t> sum = 0;
  for (ThreadPool& pool : pools)
    pool.parallel_for(20, [&](int64_t task, int) { sum += task; });
  EXPECT_EQ(sum, 10 * 190);
  EXPECT_LE(threads_of_process(), before);
}

// Creates more pools than the workers have slots. The pools have different numbers of threads and run
// concurrently.
TEST(ThreadPool, ConcurrentCallsGetTheirOwnThreads) {
  const ThreadPool shared(5);
  std::vector<std::thread> callers;
  std::atomic<int64_t> sum = 0, beyond = 0, together = 0;
  for (int i = 0; i < 40; ++i) {
    callers.emplace_back([&, threads = i % 5 + 1] {
      ThreadPool pool(shared, threads);
      std::vector<std::atomic<int>> inside(static_cast<size_t>(threads));
      for (int64_t round = 0; round < 200; ++round) {
        pool.parallel_for(round % 17, [&](int64_t, int thread) {
          if (thread >= threads) return void(++beyond);
          if (inside[static_cast<size_t>(thread)].fetch_add(1) != 0) ++together;
          ++sum;
          inside[static_cast<size_t>(thread)].fetch_sub(1);
        });
      }
    });
  }
  for (std::thread& caller : callers)
    caller.join();
  int64_t expected = 0;
  for (int64_t round = 0; round < 200; ++round)
    expected += 40 * (round % 17);
  EXPECT_EQ(sum, expected);
  EXPECT_EQ(beyond, 0);
  EXPECT_EQ(together, 0);
}

// The first call occupies all workers until the second call has finished.
TEST(ThreadPool, ACallDoesNotWaitForAnother) {
  ThreadPool first(3), second(first, 3);
  std::atomic<int64_t> held = 0, sum = 0;
  std::atomic<bool> go_on = false;
  std::thread caller([&] {
    first.parallel_for(3, [&](int64_t, int) {
      ++held;
      while (!go_on)
        std::this_thread::yield();
    });
  });
  while (held < 3)
    std::this_thread::yield();
  second.parallel_for(10, [&](int64_t task, int) { sum += task; });
  go_on = true;
  caller.join();
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, WorkersLiveAsLongAsAPoolUsesThem) {
  auto first = std::make_unique<ThreadPool>(3);
  ThreadPool second(*first, 2);
  first = nullptr;
  std::atomic<int64_t> sum = 0;
  second.parallel_for(10, [&](int64_t task, int) { sum += task; });
  EXPECT_EQ(sum, 45);
}

// The limit leaves address space for the stacks of only a few threads.
TEST(ThreadPool, FailsWhenTheSystemRefusesAThread) {
  if (test::kSanitized) GTEST_SKIP() << "sanitizers need more address space";
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit low = limit;
  low.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (int64_t{64} << 20));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  EXPECT_THROW(ThreadPool{1000}, Error);
  EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(ThreadPool, RefusesImpossibleSizes) {
  EXPECT_ERROR(ThreadPool{0}, ErrorCode::invalid_argument);
  EXPECT_ERROR(ThreadPool{-3}, ErrorCode::invalid_argument);
  EXPECT_ERROR(ThreadPool{100000}, ErrorCode::invalid_argument);
  const ThreadPool shared(2);
  EXPECT_ERROR((ThreadPool{shared, 0}), ErrorCode::invalid_argument);
  EXPECT_ERROR((ThreadPool{shared, 3}), ErrorCode::invalid_argument);
  EXPECT_GE(available_cpus(), 1);
}

}  // namespace
}  // namespace gpt
