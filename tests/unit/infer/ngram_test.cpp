#include "infer/ngram.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"

namespace gpt {
namespace {

using Ids = std::vector<int32_t>;

// Finds a repetition by definition: prefers the longest n-gram, and of several occurrences the latest.
size_t scan(const Ids& ids) {
  for (size_t n = NgramIndex::kLongest; n >= NgramIndex::kShortest; --n) {
    for (size_t after = ids.size() - 1; after >= n && after < ids.size(); --after) {
      if (std::equal(ids.end() - static_cast<std::ptrdiff_t>(n), ids.end(),
                     ids.begin() + static_cast<std::ptrdiff_t>(after - n)))
        return after;
    }
  }
  return 0;
}

Ids random_ids(size_t n, uint64_t vocab, uint64_t seed) {
  RandomStream random(seed, RandomSite::test);
  Ids ids;
  while (ids.size() < n)
    ids.push_back(static_cast<int32_t>(random.below(vocab)));
  return ids;
}

Ids proposed(NgramProposer& proposer, const Ids& ids, int64_t most) {
  Ids result = {-7};
  const Proposer::Ask ask{0, ids, most, &result};
  proposer.propose({&ask, 1});
  EXPECT_EQ(result.front(), -7) << "what was there stays";
  result.erase(result.begin());
  return result;
}

// The result does not depend on whether ids are added one by one or in groups. A few n-grams are lost to
// others with the same hash entry, but every match that is found is a real one.
TEST(Ngram, FindsWhatAScanFinds) {
  int asked = 0, equal = 0;
  for (const uint64_t vocab : {2U, 5U, 40U, 1000U}) {
    const Ids all = random_ids(900, vocab, vocab);
    NgramIndex grows;
    RandomStream random(3, RandomSite::test);
    for (size_t n = 1; n <= all.size(); n += 1 + random.below(3)) {
      const Ids ids(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n));
      const size_t found = grows.find(ids);
      ASSERT_EQ(grows.find(ids), found) << "asked again";
      NgramIndex at_once;
      ASSERT_EQ(at_once.find(ids), found) << n << " ids of " << vocab;
      ++asked;
      equal += found == scan(ids);
      if (found > 0) {
        ASSERT_TRUE(
            std::equal(ids.end() - 2, ids.end(), ids.begin() + static_cast<std::ptrdiff_t>(found) - 2));
      }
    }
  }
  EXPECT_GT(equal, 0.9 * asked);
}

TEST(Ngram, ProposesWhatFollowed) {
  NgramProposer proposer(1);
  EXPECT_EQ(proposed(proposer, {1, 2, 3, 4, 5, 6, 9, 2, 3}, 3), (Ids{4, 5, 6}));
  proposer.forget(0);
  EXPECT_EQ(proposed(proposer, {8, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3}, 2), (Ids{5, 1})) << "the longest";
  proposer.forget(0);
  EXPECT_EQ(proposed(proposer, {2, 3, 4, 2, 3, 5, 2, 3}, 1), (Ids{5})) << "the latest";
  proposer.forget(0);
  EXPECT_EQ(proposed(proposer, {1, 2, 3, 1, 2}, 8), (Ids{3, 1, 2, 3, 1, 2, 3, 1})) << "a period continues";
  proposer.forget(0);
  EXPECT_EQ(proposed(proposer, {1, 2, 3, 4}, 8), (Ids{}));
  proposer.forget(0);
  EXPECT_EQ(proposed(proposer, {1}, 8), (Ids{}));
}

// After `forget`, a different sequence may use the slot.
TEST(Ngram, KnowsNothingOfWhoLeft) {
  NgramProposer proposer(1);
  EXPECT_EQ(proposed(proposer, {1, 2, 3, 4, 1, 2}, 1), (Ids{3}));
  proposer.forget(0);
  EXPECT_EQ(proposed(proposer, {5, 6, 7, 8, 1, 2}, 1), (Ids{}));
}

// If a sequence exceeds the index memory, the index loses the oldest n-grams. Every match that it finds is
// still correct.
TEST(Ngram, LongSequences) {
  Ids ids = random_ids(700000, 50000, 1);
  NgramIndex index;
  const size_t n = ids.size();
  for (const size_t back : {size_t{100}, size_t{20000}, n - 10}) {
    Ids again(ids.begin() + static_cast<std::ptrdiff_t>(n - back), ids.end());
    again.resize(4);
    ids.insert(ids.end(), again.begin(), again.end());
    const size_t after = index.find(ids);
    if (back < n - 10) {
      EXPECT_EQ(after, n - back + 4);
    } else if (after > 0) {
      EXPECT_EQ(ids[after - 1], ids.back());
    }
    ids.resize(n);
    index.clear();
  }
}

}  // namespace
}  // namespace gpt
