#include "distributed/machine_share.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/ranges.h"
#include "base/thread_pool.h"
#include "support/team.h"

namespace gpt::test {
namespace {

using Parts = std::vector<double>;

TEST(MachineShare, ProcessesBeyondTheCpusHaveNone) {
  const ProcessCpus one{"a", 1, {0, 1}}, three{"a", 3, {0, 1, 2, 3}};
  EXPECT_EQ(parts_with_cpu({one, one}), (Parts{1, 1}));
  EXPECT_EQ(parts_with_cpu({one, one, one, one}), (Parts{1, 1, 0, 0}));
  EXPECT_EQ(parts_with_cpu({one, {"b", 1, {0, 1}}, one, one}), (Parts{1, 1, 1, 0}));  // two machines
  EXPECT_EQ(parts_with_cpu({three, three}), (Parts{1, 1.0 / 3}));
  EXPECT_EQ(parts_with_cpu({{"a", 1, {0}}, {"a", 1, {1}}}), (Parts{1, 1}));  // bound, as by mpirun
  EXPECT_EQ(parts_with_cpu({{"a", 8, {0, 1}}}), (Parts{1}));                 // threads share the CPUs
  EXPECT_EQ(parts_with_cpu({{"a", 8, {0, 1}}, one}), (Parts{1, 0}));
}

// With twice as many processes as CPUs, only half of the rates can be added.
TEST(MachineShare, RatesOfProcessesThatTakeTurnsAreNotAddedUp) {
  const int cpus = available_cpus();
  std::atomic<int> measured = 0;
  Team(2 * cpus).run([&](Communicator& c) {
    const auto rates = rates_together(
        c, 1,
        [&] {
          ++measured;
          return Parts{10, 1};
        },
        "a test");
    EXPECT_EQ(rates, (Parts{10.0 * cpus, 1.0 * cpus}));
    EXPECT_EQ(speed_beside_others(c, 1), 0.5);
  });
  EXPECT_EQ(measured, cpus);
  EXPECT_EQ(rates_together(
                single_process(), 3, [] { return Parts{7}; }, "a test"),
            (Parts{7}));
  EXPECT_EQ(speed_beside_others(single_process(), 3 * cpus), 1);
}

}  // namespace
}  // namespace gpt::test
