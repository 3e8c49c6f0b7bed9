#include "infer/feed.h"

#include <gtest/gtest.h>

#include <numeric>

namespace gpt {
namespace {

// A part of a step: the slot, the first id, the number of ids and the number of requested logit rows.
struct Part {
  int slot;
  int32_t first;
  int64_t n, wanted;
  bool operator==(const Part&) const = default;
};

TEST(CutBatch, FillsStepsWithinTheLimits) {
  std::vector<int32_t> ids(12);
  std::iota(ids.begin(), ids.end(), 0);
  const SequenceModel::Append appends[] = {{0, std::span(ids).first(5), 5}, {1, std::span(ids).last(7), 2}};
  std::vector<std::vector<Part>> steps;
  std::vector<int64_t> firsts;
  cut_batch(
      appends, 4, [](int slot) -> int64_t { return slot == 0 ? 100 : 3; },
      [&](std::span<const SequenceModel::Append> batch, int64_t first) {
        firsts.push_back(first);
        steps.emplace_back();
        for (const SequenceModel::Append& a : batch)
          steps.back().push_back({a.slot, a.ids.front(), std::ssize(a.ids), a.wanted});
      });
  EXPECT_EQ(steps, (std::vector<std::vector<Part>>{
                       {{0, 0, 4, 4}}, {{0, 4, 1, 1}, {1, 5, 3, 0}}, {{1, 8, 3, 1}}, {{1, 11, 1, 1}}}));
  EXPECT_EQ(firsts, (std::vector<int64_t>{0, 4, 5, 6}));
}

}  // namespace
}  // namespace gpt
