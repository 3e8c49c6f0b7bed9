#include "finetune/example_order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpt {
namespace {

TEST(ExampleOrder, HoldsOutOneOfEachStretch) {
  for (const int64_t n : {2, 3, 40, 101, 5000}) {
    for (const double share : {0.001, 0.1, 0.5, 0.99}) {
      const std::vector<int64_t> held = held_out(n, share);
      ASSERT_FALSE(held.empty());
      EXPECT_LT(std::ssize(held), n);
      EXPECT_TRUE(std::ranges::adjacent_find(held, std::ranges::greater_equal()) == held.end());
      EXPECT_GE(held.front(), 0);
      EXPECT_LT(held.back(), n);
      const int64_t count = std::ssize(held);
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_GE(held[static_cast<size_t>(i)], i * n / count);
        EXPECT_LT(held[static_cast<size_t>(i)], (i + 1) * n / count);
      }
    }
  }
  EXPECT_TRUE(held_out(100, 0).empty());
  EXPECT_TRUE(held_out(1, 0.5).empty());
}

// If labels alternate in a file, the held-out part contains every label.
TEST(ExampleOrder, HoldsOutEveryLabelOfAPattern) {
  for (const int64_t period : {2, 3, 5, 10}) {
    std::vector<int64_t> seen(static_cast<size_t>(period));
    for (const int64_t i : held_out(1000, 0.1))
      ++seen[static_cast<size_t>(i % period)];
    EXPECT_GE(std::ranges::min(seen), 3) << period;
  }
}

}  // namespace
}  // namespace gpt
