#include "text/piece_cache.h"

#include <gtest/gtest.h>

#include <string>

#include "base/rng.h"
#include "text/merge_table.h"

namespace gpt::detail {
namespace {

using Ids = std::vector<int32_t>;

// Looks up a piece like the tokenizers do. Returns an empty list if the piece is not cached.
Ids find(PieceCache& cache, std::string_view piece) {
  const PieceCache::Query query = cache.query(piece, piece.size());
  int32_t some[PieceCache::kSome];
  const size_t count = cache.copy_some(query, some);
  if (count < PieceCache::kSome) return {some, some + count};
  const auto ids = cache.find(query);
  return ids ? Ids(ids->begin(), ids->end()) : Ids();
}

void keep(PieceCache& cache, std::string_view piece, const Ids& ids) {
  cache.keep(cache.query(piece, piece.size()), ids);
}

// Return pieces of various lengths, and different ids for each piece.
std::string piece_of(int32_t i) {
  const size_t length = i % 5 == 0 ? static_cast<size_t>(i % 55) : 0;
  return "p" + std::to_string(i) + std::string(length, '-');
}
Ids ids_of(int32_t i) {
  Ids ids(1 + static_cast<size_t>(i) % 9);
  for (size_t k = 0; k < ids.size(); ++k)
    ids[k] = i + static_cast<int32_t>(k);
  return ids;
}

TEST(PieceCache, KnowsManyPieces) {
  PieceCache cache;
  constexpr int32_t kPieces = 50000;
  int32_t known = 0;
  for (int32_t i = 0; i < kPieces; ++i) {
    EXPECT_EQ(find(cache, piece_of(i)), Ids());
    keep(cache, piece_of(i), ids_of(i));
    EXPECT_EQ(find(cache, piece_of(i)), ids_of(i));
  }
  for (int32_t i = 0; i < kPieces; ++i) {
    const Ids ids = find(cache, piece_of(i));
    if (ids.empty()) continue;
    ++known;
    ASSERT_EQ(ids, ids_of(i)) << piece_of(i);
  }
  EXPECT_GT(known, kPieces * 8 / 10);
}

TEST(PieceCache, ForgetsWhatDoesNotComeAgain) {
  PieceCache cache;
  int32_t known = 0;
  for (int32_t i = 0; i < 1200000; ++i) {
    keep(cache, piece_of(i), ids_of(i));
    if (i % 1000 != 0) continue;
    if (find(cache, "often").empty()) keep(cache, "often", {7});
  }
  for (int32_t i = 0; i < 1200000; ++i) {
    const Ids ids = find(cache, piece_of(i));
    if (ids.empty()) continue;
    ++known;
    ASSERT_EQ(ids, ids_of(i)) << piece_of(i);
  }
  EXPECT_GT(known, 100000);
  EXPECT_LT(known, 350000);  // the memory of the cache is limited
  EXPECT_EQ(find(cache, "often"), Ids{7});
}

TEST(PieceCache, RemembersWhatWasAsked) {
  PieceCache cache;
  int32_t mistaken = 0;
  for (int32_t i = 0; i < 1000; ++i) {
    const std::string piece = piece_of(i);
    const PieceCache::Query query = cache.query(piece, piece.size());
    if (cache.was_asked_before(query)) ++mistaken;
    EXPECT_TRUE(cache.was_asked_before(query)) << piece;
  }
  EXPECT_LT(mistaken, 10);
}

// If a piece has more ids than fit into a cache entry, they are stored in a list. The list fills up five
// times in this test.
TEST(PieceCache, ShortPiecesOfManyIdsAreForgottenTogether) {
  PieceCache cache;
  const auto many_of = [](int32_t i) { return Ids(5 + static_cast<size_t>(i) % 11, i); };
  for (int32_t i = 0; i < 1000000; ++i) {
    const std::string piece = "m" + std::to_string(i);
    keep(cache, piece, many_of(i));
    ASSERT_EQ(find(cache, piece), many_of(i)) << piece;
    const std::string earlier = "m" + std::to_string(i / 2);
    if (const Ids ids = find(cache, earlier); !ids.empty()) {
      ASSERT_EQ(ids, many_of(i / 2)) << earlier;
    }
  }
}

TEST(PieceCache, LeavesOutWhatIsTooLong) {
  PieceCache cache;
  const std::string longest(256, 'x'), longer(257, 'x');
  keep(cache, longest, Ids(256, 1));
  keep(cache, longer, {1});
  keep(cache, "short", Ids(257, 1));
  EXPECT_EQ(find(cache, longest), Ids(256, 1));
  EXPECT_EQ(find(cache, longer), Ids());
  EXPECT_EQ(find(cache, "short"), Ids());
}

// High ranks and long inputs use different code than low ranks and short inputs.
TEST(MergeTable, RanksCountOnlyInOrder) {
  constexpr int32_t kLetters = 3, kSymbols = 40;
  RandomStream random(5, RandomSite::test);
  for (int round = 0; round < 200; ++round) {
    MergeTable low, high;
    for (int32_t result = kLetters; result < kSymbols; ++result) {
      const auto left = static_cast<int32_t>(random.below(static_cast<uint64_t>(result)));
      const auto right = static_cast<int32_t>(random.below(static_cast<uint64_t>(result)));
      low.add(left, right, {result, result});
      high.add(left, right, {(1 << 24) + result, result});
    }
    Ids symbols(random.below(129)), same;
    for (int32_t& symbol : symbols)
      symbol = static_cast<int32_t>(random.below(kLetters));
    same = symbols;
    low.merge(symbols, 0);
    high.merge(same, 0);
    ASSERT_EQ(symbols, same);
  }
}

}  // namespace
}  // namespace gpt::detail
