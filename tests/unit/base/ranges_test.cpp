#include "base/ranges.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gpt {
namespace {

struct Named {
  std::string name;
  int64_t size = 0;
  int64_t twice() const { return 2 * size; }
};

const std::vector<Named> kNamed = {{"a", 3}, {"b", 4}, {"a", 5}};

TEST(Ranges, TransformsByMembersAndFunctions) {
  EXPECT_EQ(transformed(kNamed, &Named::name), (std::vector<std::string>{"a", "b", "a"}));
  EXPECT_EQ(transformed(kNamed, &Named::twice), (std::vector<int64_t>{6, 8, 10}));
  const std::map<int, char> map = {{1, 'x'}, {2, 'y'}};
  EXPECT_EQ(transformed(map, [](const auto& entry) { return entry.second; }), (std::vector<char>{'x', 'y'}));
  EXPECT_TRUE(transformed(std::vector<Named>(), &Named::size).empty());
}

TEST(Ranges, TransformsIndices) {
  EXPECT_EQ(transformed_indices(3, [](int64_t i) { return i * i; }), (std::vector<int64_t>{0, 1, 4}));
  EXPECT_EQ(transformed_indices(2, [](int64_t i) { return i == 0; }), (std::vector<bool>{true, false}));
}

TEST(Ranges, Sums) {
  EXPECT_EQ(sum_of(kNamed, &Named::size), 12);
  EXPECT_EQ(sum_of(std::vector{0.5, 0.25}), 0.75);
  EXPECT_EQ(sum_of(std::vector<double>()), 0);
}

TEST(Ranges, FindsTheFirst) {
  const Named* found = find_by(kNamed, &Named::name, "a");
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->size, 3);
  EXPECT_EQ(find_by(kNamed, &Named::name, "c"), nullptr);
  EXPECT_EQ(find_by(kNamed, &Named::twice, 8), &kNamed[1]);
}

}  // namespace
}  // namespace gpt
