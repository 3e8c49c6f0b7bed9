#include "data/weighted_name.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

TEST(WeightedName, SplitsANameAndItsShare) {
  EXPECT_EQ(parse_weighted_name("a.txt").name, "a.txt");
  EXPECT_FALSE(parse_weighted_name("a.txt").weight);
  EXPECT_EQ(parse_weighted_name("a=b.txt=0.25").name, "a=b.txt");
  EXPECT_EQ(parse_weighted_name("a=b.txt=0.25").weight, 0.25);
  EXPECT_EQ(parse_weighted_name("a=9e11").weight, 9e11);
}

TEST(WeightedName, IsAFileOfThatVeryName) {
  const test::TempDir dir;
  const std::string path = dir.file("a=2");
  test::write_plain_file(path, "text");
  EXPECT_EQ(parse_weighted_name(path).name, path);
  EXPECT_FALSE(parse_weighted_name(path).weight);
}

// Larger weights would have an infinite sum, which makes their shares NaN.
TEST(WeightedName, RefusesWeightsThatAreNoShare) {
  for (const char* entry : {"a=0", "a=-1", "a=1e12", "a=1e308", "a=1e309", "a=inf", "a=nan", "a=", "a=x"})
    EXPECT_ERROR(parse_weighted_name(entry), ErrorCode::invalid_argument) << entry;
}

}  // namespace
}  // namespace gpt
