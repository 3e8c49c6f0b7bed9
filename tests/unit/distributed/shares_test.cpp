#include "distributed/shares.h"

#include <gtest/gtest.h>

#include <atomic>

#include "support/team.h"

namespace gpt::test {
namespace {

TEST(Shares, AreNoLargerThanAsked) {
  EXPECT_EQ(share_size(single_process(), 100, 10), 100);
  Team(3).run([](Communicator& c) {
    EXPECT_EQ(share_size(c, 100, 1000), 34);
    EXPECT_EQ(share_size(c, 100, 10), 10);
    EXPECT_EQ(share_size(c, 0, 10), 1);
  });
}

TEST(Shares, TextsOfAnyLengthAreJoined) {
  Team(3).run([](Communicator& c) {
    const std::vector<std::vector<std::string>> own = {{"a", ""}, {}, {std::string("b\0c", 3)}};
    const std::vector<std::string> all = joined(c, own[static_cast<size_t>(c.rank())], "a test");
    EXPECT_EQ(all, (std::vector<std::string>{"a", "", std::string("b\0c", 3)}));
  });
}

// Items have different numbers of values, and each item is computed once.
TEST(Shares, NumbersHaveTheOrderOfTheItems) {
  constexpr int64_t kItems = 11;
  const auto numbers_of = [](int64_t i) {
    return std::vector<double>(static_cast<size_t>(i % 4), static_cast<double>(i) / 3);
  };
  const auto alone = compute_in_shares(single_process(), kItems, numbers_of, "a test");
  EXPECT_EQ(alone.size(), 15u);
  for (const int size : {2, 3, 16}) {
    std::atomic<int64_t> computed = 0;
    Team(size).run([&](Communicator& c) {
      const auto counted = [&](int64_t i) {
        ++computed;
        return numbers_of(i);
      };
      EXPECT_EQ(compute_in_shares(c, kItems, counted, "a test"), alone);
    });
    EXPECT_EQ(computed, kItems);
  }
}

TEST(Shares, EndWhereTheyAreStopped) {
  Team(2).run([](Communicator& c) {
    int asked = 0;
    const auto none = compute_in_shares(
        c, 10, [](int64_t) { return std::vector<double>{1}; }, [&] { return ++asked > 3; }, "a test");
    EXPECT_FALSE(none);
    EXPECT_EQ(asked, 4);
  });
}

}  // namespace
}  // namespace gpt::test
