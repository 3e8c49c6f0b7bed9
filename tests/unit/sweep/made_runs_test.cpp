#include "sweep/made_runs.h"

#include <gtest/gtest.h>

namespace gpt::test {
namespace {

TEST(MadeRuns, ASweepTakesAsLongAsItsBusiestProcess) {
  const std::vector<double> flops = {1, 4, 2, 4, 2};
  EXPECT_EQ(deal_runs(flops, 2), (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_EQ(deal_runs(flops, 1), (std::vector<int>{0, 0, 0, 0, 0}));
  const std::vector<double> seconds = {10, 40, 20, 40, 20};
  EXPECT_EQ(longest_share(flops, seconds, 1), 130);
  EXPECT_EQ(longest_share(flops, seconds, 2), 70);  // not 65, because a run cannot be split
  EXPECT_EQ(longest_share(flops, seconds, 8), 40);
}

}  // namespace
}  // namespace gpt::test
