#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "data/eval_windows.h"
#include "support/names.h"

namespace gpt {
namespace {

// Returns data in which token i is i, so that the content of a window shows its position.
TokenData counting(int64_t n) {
  TokenData data(*make_byte_tokenizer());
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  data.append(ids);
  return data;
}

struct Batch {
  std::vector<int32_t> ids, targets;
};

Batch fill(const BatchLoader& loader, int64_t step, int64_t first, int64_t count, int64_t batch_size) {
  const auto n = static_cast<size_t>(count * loader.n_ctx());
  Batch batch{std::vector<int32_t>(n), std::vector<int32_t>(n)};
  loader.fill(step, first, count, batch_size, batch.ids.data(), batch.targets.data());
  return batch;
}

TEST(Permutation, IsAPermutationForManySizes) {
  for (const int64_t n : {1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 65, 100, 1000, 4097}) {
    const KeyedPermutation order(n, 3, 5);
    std::vector<bool> seen(static_cast<size_t>(n), false);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t to = order(i);
      ASSERT_GE(to, 0);
      ASSERT_LT(to, n);
      ASSERT_FALSE(seen[static_cast<size_t>(to)]);
      seen[static_cast<size_t>(to)] = true;
    }
  }
  EXPECT_LT(KeyedPermutation((int64_t{1} << 40) + 1, 1, 1)(int64_t{1} << 40), (int64_t{1} << 40) + 1);
}

// Each of the 24 orders of 4 windows is expected in 200 of 4800 epochs. With 23 degrees of freedom, a
// chi-squared value of 60 is beyond the 99.99th percentile.
TEST(Permutation, OrdersAreUniform) {
  std::map<std::vector<int64_t>, int> seen;
  for (uint64_t epoch = 0; epoch < 4800; ++epoch) {
    const KeyedPermutation order(4, 11, epoch);
    ++seen[{order(0), order(1), order(2), order(3)}];
  }
  EXPECT_EQ(seen.size(), 24u);
  double chi_squared = 0;
  for (const auto& [order, count] : seen)
    chi_squared += (count - 200.0) * (count - 200.0) / 200.0;
  EXPECT_LT(chi_squared, 60);
}

TEST(BatchLoader, TargetsAreTheNextTokens) {
  const TokenData data = counting(100);
  for (const Sampling sampling : {Sampling::random, Sampling::epoch}) {
    const BatchLoader loader(TokenSpan(data), 8, 1, sampling);
    const Batch batch = fill(loader, 3, 0, 5, 5);
    for (size_t i = 0; i < batch.ids.size(); ++i) {
      EXPECT_EQ(batch.targets[i], batch.ids[i] + 1);
      EXPECT_EQ(batch.ids[i], batch.ids[i - i % 8] + static_cast<int32_t>(i % 8));
    }
  }
}

TEST(BatchLoader, RandomStartsCoverTheWholeRangeEvenly) {
  const TokenData data = counting(20);
  const BatchLoader loader(TokenSpan(data), 8, 1, Sampling::random);
  std::vector<int> seen(12, 0);  // starts 0 .. n - T - 1 = 11
  for (int64_t sample = 0; sample < 12000; ++sample) {
    const int64_t start = loader.start(sample);
    ASSERT_GE(start, 0);
    ASSERT_LT(start, 12);
    ++seen[static_cast<size_t>(start)];
  }
  // The standard deviation is 30.
  for (const int count : seen)
    EXPECT_NEAR(count, 1000, 150);
}

TEST(BatchLoader, ShortestDataHasOneWindow) {
  const TokenData data = counting(9);
  for (const Sampling sampling : {Sampling::random, Sampling::epoch}) {
    const BatchLoader loader(TokenSpan(data), 8, 1, sampling);
    EXPECT_EQ(fill(loader, 0, 0, 1, 1).targets.back(), 8);
    EXPECT_THROW(BatchLoader(TokenSpan(data, 1, 9), 8, 1, sampling), Error);
  }
}

TEST(BatchLoader, BatchesDependOnTheSampleIndexAlone) {
  const TokenData data = counting(200);
  for (const Sampling sampling : {Sampling::random, Sampling::epoch}) {
    const BatchLoader loader(TokenSpan(data), 8, 42, sampling);
    const Batch whole = fill(loader, 7, 0, 6, 6);
    Batch parts;
    for (const auto& [first, count] : {std::pair{4, 2}, {0, 3}, {3, 1}}) {
      const Batch part = fill(BatchLoader(TokenSpan(data), 8, 42, sampling), 7, first, count, 6);
      EXPECT_TRUE(std::equal(part.ids.begin(), part.ids.end(), whole.ids.begin() + first * 8));
      EXPECT_TRUE(std::equal(part.targets.begin(), part.targets.end(), whole.targets.begin() + first * 8));
    }
    // Sample 42 begins step 7 of batches of 6 and step 14 of batches of 3.
    const Batch halves = fill(loader, 14, 0, 3, 3);
    EXPECT_TRUE(std::equal(halves.ids.begin(), halves.ids.end(), whole.ids.begin()));
    EXPECT_NE(fill(loader, 8, 0, 6, 6).ids, whole.ids);
    EXPECT_NE(fill(BatchLoader(TokenSpan(data), 8, 43, sampling), 7, 0, 6, 6).ids, whole.ids);
  }
}

TEST(BatchLoader, EveryEpochVisitsEveryWindowOnce) {
  for (const int64_t n : {9, 16, 17, 18, 100, 251}) {
    const TokenData data = counting(n);
    const BatchLoader loader(TokenSpan(data), 8, 5, Sampling::epoch);
    const int64_t windows = (n - 1) / 8;
    ASSERT_EQ(loader.windows_per_epoch(), windows);
    std::set<std::vector<int64_t>> orders;
    for (int64_t epoch = 0; epoch < 4; ++epoch) {
      std::vector<int64_t> starts;
      for (int64_t i = 0; i < windows; ++i)
        starts.push_back(loader.start(epoch * windows + i));
      orders.insert(starts);
      std::ranges::sort(starts);
      for (int64_t w = 0; w < windows; ++w)
        EXPECT_EQ(starts[static_cast<size_t>(w)], w * 8);
    }
    if (windows > 10) {
      EXPECT_EQ(orders.size(), 4u);
    }  // a different order in every epoch
  }
}

TEST(EvalBatches, AreFixedAndDifferFromTraining) {
  const TokenData data = counting(200);
  const EvalBatches eval(TokenSpan(data), 8, 1, 4, 3);
  std::vector<int32_t> a(24), b(24), ids(24), targets(24);
  eval.fill(2, 0, 3, a.data(), targets.data());
  EvalBatches(TokenSpan(data), 8, 1, 9, 3).fill(2, 0, 3, b.data(), targets.data());
  EXPECT_EQ(a, b);
  for (size_t i = 0; i < 24; ++i)
    EXPECT_EQ(targets[i], a[i] + 1);
  eval.fill(2, 1, 2, b.data(), targets.data());
  EXPECT_TRUE(std::equal(b.begin(), b.begin() + 16, a.begin() + 8));
  BatchLoader(TokenSpan(data), 8, 1, Sampling::random).fill(2, 0, 3, 3, ids.data(), targets.data());
  EXPECT_NE(ids, a);
  eval.fill(1, 0, 3, b.data(), targets.data());
  EXPECT_NE(b, a);
  EXPECT_THROW(EvalBatches(TokenSpan(data), 200, 1, 4, 3), Error);
  EXPECT_ERROR(EvalBatches(TokenSpan(data), 8, 1, 0, 3), ErrorCode::invalid_argument);
  EXPECT_ERROR(EvalBatches(TokenSpan(data), 8, 1, 4, 0), ErrorCode::invalid_argument);
}

TEST(SequentialWindows, ScoreEveryTokenButTheFirstOnce) {
  for (int64_t n = 2; n <= 40; ++n) {
    const TokenData data = counting(n);
    for (int64_t n_ctx = 1; n_ctx <= 9; ++n_ctx) {
      for (int64_t stride = 1; stride <= n_ctx; ++stride) {
        const SequentialWindows windows(TokenSpan(data), n_ctx, stride);
        const auto size = static_cast<size_t>(windows.count() * n_ctx);
        std::vector<int32_t> ids(size, -7), targets(size, -7);
        windows.fill(0, windows.count(), ids.data(), targets.data());
        std::vector<int32_t> scored;
        for (size_t i = 0; i < size; ++i) {
          ASSERT_TRUE(ids[i] >= 0 && ids[i] < n);
          if (targets[i] == kIgnoredTarget) continue;
          ASSERT_EQ(targets[i], ids[i] + 1);
          scored.push_back(targets[i]);
          // Every scored token after the first window has the guaranteed context.
          const auto t = static_cast<int64_t>(i) % n_ctx;
          if (static_cast<int64_t>(i) >= n_ctx) {
            ASSERT_GE(t, n_ctx - stride);
          }
        }
        std::vector<int32_t> expected(static_cast<size_t>(n - 1));
        std::iota(expected.begin(), expected.end(), 1);
        ASSERT_EQ(scored, expected) << n << " " << n_ctx << " " << stride;
        ASSERT_EQ(windows.scored(), n - 1);
        ASSERT_EQ(windows.scored_text_bytes(), n - 1);
      }
    }
  }
}

TEST(SequentialWindows, RejectsBadStridesAndShortData) {
  const TokenData data = counting(20);
  EXPECT_ERROR(SequentialWindows(TokenSpan(data), 8, 0), ErrorCode::invalid_argument);
  EXPECT_ERROR(SequentialWindows(TokenSpan(data), 8, 9), ErrorCode::invalid_argument);
  EXPECT_THROW(SequentialWindows(TokenSpan(data, 0, 1), 8, 8), Error);
}

// Returns `n` tokens with the same `id`.
TokenData constant(int64_t n, int32_t id) {
  TokenData data(*make_byte_tokenizer());
  data.append(std::vector<int32_t>(static_cast<size_t>(n), id));
  return data;
}

TEST(BatchLoader, MixesSourcesByWeight) {
  const TokenData a = constant(50, 1), b = constant(5000, 2), c = constant(900, 3);
  const std::vector<WeightedTokens> sources = {{TokenSpan(a), 5}, {TokenSpan(b), 3}, {TokenSpan(c), 2}};
  for (const Sampling sampling : {Sampling::random, Sampling::epoch}) {
    const BatchLoader loader(sources, 8, 3, sampling);
    std::map<int64_t, int64_t> seen, early;
    for (int64_t k = 0; k < 2 * 65536; ++k) {
      const auto [source, start] = loader.place(k);
      ASSERT_LE(start + 9, sources[static_cast<size_t>(source)].tokens.size());
      ++seen[source];
      if (k < 2000) ++early[source];
    }
    // Over whole rounds, the mixture is exact up to rounding. Within a round, it deviates no more than random
    // sampling would.
    EXPECT_NEAR(static_cast<double>(seen[0]), 65536, 2);
    EXPECT_NEAR(static_cast<double>(seen[1]), 0.6 * 65536, 2);
    EXPECT_NEAR(static_cast<double>(early[0]), 1000, 100);
    const Batch whole = fill(loader, 5, 0, 12, 12), part = fill(loader, 5, 7, 5, 12);
    EXPECT_TRUE(std::equal(part.ids.begin(), part.ids.end(), whole.ids.begin() + 7 * 8));
    for (size_t i = 0; i < whole.ids.size(); ++i)
      EXPECT_EQ(whole.ids[i], whole.targets[i]);  // no window has tokens of two sources
  }
}

TEST(BatchLoader, EpochsOfASourceTakeEveryWindowOnce) {
  const TokenData a = counting(81), b = counting(201);
  const BatchLoader loader(std::vector<WeightedTokens>{{TokenSpan(a), 1}, {TokenSpan(b), 3}}, 8, 1,
                           Sampling::epoch);
  // Collects the samples of each source in the order of their index within the source.
  std::map<int64_t, std::vector<int64_t>> starts;
  for (int64_t k = 0; k < 65536; ++k) {
    const auto [source, start] = loader.place(k);
    starts[source].push_back(start);
  }
  for (const auto& [source, list] : starts) {
    std::map<int64_t, int64_t> counts;
    for (const int64_t start : list)
      ++counts[start];
    EXPECT_EQ(std::ssize(counts), loader.windows_per_epoch(source));
    const auto less = [](const auto& x, const auto& y) { return x.second < y.second; };
    const auto [low, high] = std::minmax_element(counts.begin(), counts.end(), less);
    EXPECT_LE(high->second - low->second, 1);
  }
}

TEST(BatchLoader, RefusesBadWeights) {
  const TokenData a = constant(50, 1), b = constant(50, 2), tiny = constant(5, 3);
  const auto make = [&](double weight, const TokenData& other) {
    BatchLoader(std::vector<WeightedTokens>{{TokenSpan(a), 1}, {TokenSpan(other), weight}}, 8, 1,
                Sampling::random);
  };
  EXPECT_NO_THROW(make(0.5, b));
  EXPECT_ERROR(make(0, b), ErrorCode::invalid_argument);
  EXPECT_ERROR(make(-1, b), ErrorCode::invalid_argument);
  EXPECT_ERROR(make(1e-9, b), ErrorCode::invalid_argument);
  EXPECT_ERROR(make(std::nan(""), b), ErrorCode::invalid_argument);
  EXPECT_THROW(make(0.5, tiny), Error);
}

}  // namespace
}  // namespace gpt
