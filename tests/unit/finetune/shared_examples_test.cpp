#include "finetune/shared_examples.h"

#include <gtest/gtest.h>

#include <functional>

namespace gpt {
namespace {

using Ids = std::vector<std::vector<int32_t>>;

std::string note(const Ids& train, const Ids& held_out) {
  return note_shared_examples(train, held_out, std::identity());
}

TEST(SharedExamples, AreThoseOfEqualIds) {
  const Ids train = {{1, 2}, {3}, {4, 5, 6}};
  EXPECT_EQ(note(train, {{1}, {2}, {4, 5}}), "");
  EXPECT_EQ(note(train, {}), "");
  EXPECT_EQ(note(train, {{3}, {3}, {7}}), note_shared_examples(2, 3));
  EXPECT_NE(note_shared_examples(2, 3), "");
}

TEST(SharedExamples, AFewAreNoNews) {
  EXPECT_EQ(note_shared_examples(0, 0), "");
  EXPECT_EQ(note_shared_examples(9, 100), "");
  EXPECT_NE(note_shared_examples(10, 100), "");
}

}  // namespace
}  // namespace gpt
