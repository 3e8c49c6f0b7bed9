#include "support/names.h"

#include <gtest/gtest.h>

namespace gpt::test {
namespace {

TEST(Names, AreWholeWordsAndNumbers) {
  EXPECT_TRUE(names("n_embd = 2,048, found 12.", {"n_embd", 2048, 12}));
  EXPECT_TRUE(names("-1,234,567 or -1234567", {-1234567}));
  EXPECT_TRUE(names("-123,456", {-123456}));
  EXPECT_TRUE(names("--n-head: 3", {"--n-head", 3}));
  EXPECT_FALSE(names("512.12 and 1,012", {12}));
  EXPECT_FALSE(names("12.5", {12}));
  EXPECT_FALSE(names("n_head_kv", {"n_head"}));
}

TEST(Names, OfARefusalBeginWithItsObject) {
  EXPECT_TRUE(refused([] { fail("t, line 2: 5 keys"); }, "t, line 2", {5}));
  EXPECT_TRUE(refused([] { fail("t, line 2: 5 keys"); }, "t"));
  EXPECT_FALSE(refused([] { fail("t, line 2: 5 keys"); }, "t, line 2", {4}));
  EXPECT_FALSE(refused([] { fail("t.txt: 5 keys"); }, "t.tx"));
  EXPECT_FALSE(refused([] { fail("wrong: t.txt"); }, "t.txt"));
  EXPECT_FALSE(refused([] {}, "t.txt"));
  EXPECT_TRUE(refused_parameter([] { fail_parameter("n_layer", "found {}", 3); }, "n_layer", {3}));
  EXPECT_FALSE(refused_parameter([] { fail_parameter("n_layer", "found {}", 3); }, "n_head", {3}));
  EXPECT_FALSE(refused_parameter([] { fail("n_layer: found 3"); }, "n_layer", {3}));
}

}  // namespace
}  // namespace gpt::test
