#include "chat/chat_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "support/error_of.h"
#include "support/names.h"

namespace gpt {
namespace {

// Returns an example with n ids first, first + 1, ..., of which the second half has a loss weight of 1.
ChatExample example(int32_t first, int n) {
  ChatExample out;
  for (int i = 0; i < n; ++i) {
    out.ids.push_back(first + i);
    out.weights.push_back(i >= n / 2 ? 1 : 0);
  }
  return out;
}

std::vector<const ChatExample*> pointers(const std::vector<ChatExample>& examples) {
  std::vector<const ChatExample*> out;
  for (const ChatExample& e : examples)
    out.push_back(&e);
  return out;
}

TEST(ChatRows, HoldEveryConversationOnceWithItsTargets) {
  const std::vector<ChatExample> examples = {example(10, 4), example(20, 6), example(30, 3), example(40, 9)};
  const std::vector<ChatRow> rows = pack_chat_rows(pointers(examples), 8);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].ids, (std::vector<int32_t>{10, 11, 12, 20, 21, 22, 23, 24}));
  EXPECT_EQ(rows[0].targets, (std::vector<int32_t>{-1, 12, 13, -1, -1, 23, 24, 25}));
  EXPECT_EQ(rows[0].weights, (std::vector<float>{0, 1, 1, 0, 0, 1, 1, 1}));
  EXPECT_EQ(rows[0].starts, (std::vector<uint8_t>{1, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(rows[1].ids, (std::vector<int32_t>{30, 31, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rows[1].starts, (std::vector<uint8_t>{1, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(rows[1].targets, (std::vector<int32_t>{31, 32, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(rows[2].ids.back(), 47);
  EXPECT_EQ(rows[2].targets.back(), 48);
  EXPECT_TRUE(test::names(test::error_of([&] { pack_chat_rows(pointers({example(1, 10)}), 8); }), {10, 9}));
}

TEST(ChatRows, FillRowsWell) {
  std::vector<ChatExample> examples;
  int64_t ids = 0;
  for (int i = 0; i < 500; ++i) {
    examples.push_back(example(i, 5 + i * 37 % 60));
    ids += std::ssize(examples.back().ids) - 1;
  }
  const std::vector<ChatRow> rows = pack_chat_rows(pointers(examples), 128);
  EXPECT_LE(std::ssize(rows) * 128, ids * 107 / 100);
  int64_t counted = 0, expected = 0;
  for (const ChatRow& row : rows)
    counted += std::ranges::count(row.weights, 1.0f);
  for (const ChatExample& e : examples)
    expected += std::ranges::count(e.weights, uint8_t{1});
  EXPECT_EQ(counted, expected);
}

std::vector<ChatExample> numbered(int32_t first, int n) {
  std::vector<ChatExample> out;
  for (int i = 0; i < n; ++i)
    out.push_back(example(first + i * 10, 4));
  return out;
}

TEST(ChatParts, AreMixedByWeightAndHeldOut) {
  const std::vector<ChatPart> parts = {make_chat_part("a", 3, numbered(0, 100), 0.1, 7),
                                       make_chat_part("b", 1, numbered(10000, 20), 0.01, 7)};
  EXPECT_EQ(parts[0].held_out.size(), 10u);
  EXPECT_EQ(parts[1].held_out.size(), 1u) << "at least one";
  std::map<int32_t, int> seen;
  int64_t of_b = 0;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    const std::vector<const ChatExample*> all = chat_epoch(parts, 7, epoch);
    EXPECT_EQ(all.size(), 109u);
    EXPECT_EQ(all, chat_epoch(parts, 7, epoch));
    EXPECT_NE(all, chat_epoch(parts, 8, epoch));
    for (const ChatExample* e : all) {
      ++seen[e->ids[0]];
      of_b += e->ids[0] >= 10000 ? 1 : 0;
    }
  }
  EXPECT_EQ(of_b, 4 * 27);  // a quarter
  for (const ChatPart& part : parts) {
    int least = 100, most = 0;
    for (const ChatExample& e : part.train) {
      least = std::min(least, seen[e.ids[0]]);
      most = std::max(most, seen[e.ids[0]]);
    }
    EXPECT_LE(most - least, 1) << "passes one after the other";
    for (const ChatExample& e : part.held_out)
      EXPECT_EQ(seen.count(e.ids[0]), 0u);
  }
  const std::vector<ChatPart> plain = {make_chat_part("a", 0, numbered(0, 7), 0, 1),
                                       make_chat_part("b", 0, numbered(100, 5), 0, 1)};
  EXPECT_EQ(chat_epoch(plain, 1, 3).size(), 12u);
  for (const double weight : {-1.0, 1e12, 1e308, std::numeric_limits<double>::infinity()})
    EXPECT_ERROR(make_chat_part("a", weight, {}, 0, 1), ErrorCode::invalid_argument) << weight;
  EXPECT_ERROR(make_chat_part("a", 1, {}, 1, 1), ErrorCode::invalid_argument);
  EXPECT_THROW(chat_epoch({}, 1, 0), Error);
}

}  // namespace
}  // namespace gpt
