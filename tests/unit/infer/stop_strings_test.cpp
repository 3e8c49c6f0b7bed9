#include "infer/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
#include "support/names.h"

namespace gpt {
namespace {

struct Outcome {
  std::string shown;
  std::string matched;
  bool operator==(const Outcome&) const = default;
};

// Searches the whole text by definition: the stop string that ends first, or the longest of several that end
// there.
Outcome naive(const std::string& text, const std::vector<std::string>& stops) {
  size_t best_end = std::string::npos;
  std::string best;
  for (const std::string& stop : stops) {
    const size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    const size_t end = at + stop.size();
    if (end < best_end || (end == best_end && stop.size() > best.size())) {
      best_end = end;
      best = stop;
    }
  }
  if (best.empty()) return {text, ""};
  return {text.substr(0, best_end - best.size()), best};
}

Outcome streamed(const std::string& text, const std::vector<std::string>& stops, RandomStream& random,
                 uint64_t longest_piece) {
  StopStrings filter(stops);
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t size = std::min(text.size() - at, static_cast<size_t>(random.below(longest_piece + 1)));
    shown += filter.push(std::string_view(text).substr(at, size));
    at += size;
  }
  const bool stopped = filter.stopped();
  shown += filter.finish();
  EXPECT_EQ(stopped, !filter.matched().empty());
  return {shown, filter.matched()};
}

TEST(StopStrings, PassesEverythingWithoutStops) {
  StopStrings filter({});
  EXPECT_EQ(filter.push("any text"), "any text");
  EXPECT_EQ(filter.finish(), "");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopStrings, HoldsBackOnlyWhatMayBecomeAStop) {
  StopStrings filter({"\nUser:"});
  EXPECT_EQ(filter.push("Hello"), "Hello");
  EXPECT_EQ(filter.push(" there\nU"), " there");
  EXPECT_EQ(filter.push("se"), "");
  EXPECT_EQ(filter.push("d it\n"), "\nUsed it");
  EXPECT_EQ(filter.push("\nUser"), "\n");
  EXPECT_EQ(filter.push(": more"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.matched(), "\nUser:");
  EXPECT_EQ(filter.push("anything"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopStrings, FinishReleasesAnUnfinishedStop) {
  StopStrings filter({"END"});
  EXPECT_EQ(filter.push("the EN"), "the ");
  EXPECT_EQ(filter.finish(), "EN");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopStrings, TheFirstToCompleteWinsThenTheLongest) {
  StopStrings first({"abc", "b"});
  EXPECT_EQ(first.push("xabc"), "xa");
  EXPECT_EQ(first.matched(), "b");
  StopStrings longest({"c", "abc", "bc"});
  EXPECT_EQ(longest.push("xabc"), "x");
  EXPECT_EQ(longest.matched(), "abc");
}

TEST(StopStrings, FindsAStopThatOverlapsItself) {
  StopStrings filter({"aab"});
  EXPECT_EQ(filter.push("aaa"), "a");
  EXPECT_EQ(filter.push("ab!"), "a");
  EXPECT_TRUE(filter.stopped());
}

TEST(StopStrings, NeverSplitsACharacter) {
  StopStrings filter({"é!"});  // é and è share their first byte
  EXPECT_EQ(filter.push("è"), "è");
  EXPECT_EQ(filter.push("é"), "");
  EXPECT_EQ(filter.push("è"), "éè");
}

TEST(StopStrings, AnEmptyStopIsAnError) {
  EXPECT_ERROR(StopStrings({"a", ""}), ErrorCode::invalid_argument);
}

TEST(StopStrings, AgreesWithSearchingTheWholeTextHoweverItIsCut) {
  RandomStream random(17, RandomSite::test);
  const auto letters = [&](uint64_t size) {
    std::string text;
    while (text.size() < size)
      text += static_cast<char>('a' + random.below(3));
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 5000; ++round) {
    const std::string text = letters(random.below(60));
    std::vector<std::string> stops;
    for (uint64_t i = random.below(4); i > 0; --i)
      stops.push_back(letters(1 + random.below(7)));
    const Outcome expected = naive(text, stops);
    stopped += !expected.matched.empty();
    EXPECT_EQ(streamed(text, stops, random, 1 + random.below(9)), expected) << text;
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_LT(stopped, 4500);
}

}  // namespace
}  // namespace gpt
