#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "support/small_models.h"

namespace gpt {
namespace {

constexpr int64_t kBlock = KvCache::kBlock;

ModelConfig config() {
  return test::make_config({"llama", "llama", R"({"n_kv_head": 2})"});
}

// No row belongs to two slots, or to two tokens that the window shows at once.
TEST(KvCache, RowsAreDistinctWhileTheyAreVisible) {
  for (int64_t capacity : {1, 16, 64, 65, 200}) {
    KvCache cache(config(), 3, capacity, DType::f32);
    std::map<int64_t, int> owner;
    for (int slot = 0; slot < 3; ++slot) {
      for (int64_t length = 0; length < 3 * capacity + 2 * kBlock; length += 7) {
        cache.extend(slot, 7);
        EXPECT_EQ(cache.length(slot), length + 7);
        std::set<int64_t> rows;
        for (int64_t t = std::max<int64_t>(0, length + 7 - capacity); t < length + 7; ++t) {
          const int64_t row = cache.row(slot, t);
          ASSERT_GE(row, 0);
          ASSERT_LT(row, cache.keys(0).rows());
          ASSERT_EQ(row, cache.blocks(slot)[t / kBlock] * kBlock + t % kBlock);
          ASSERT_TRUE(rows.insert(row).second) << "token " << t;
          ASSERT_EQ(owner.emplace(row, slot).first->second, slot) << "row " << row;
        }
      }
    }
  }
}

// A step of one block never writes a row that its first token still sees.
TEST(KvCache, ABlockFitsBesideTheWindow) {
  for (int64_t capacity : {1, 16, 63, 64, 65, 200}) {
    KvCache cache(config(), 1, capacity, DType::f32);
    cache.extend(0, 2 * capacity + 5);
    const int64_t first = cache.length(0);
    cache.extend(0, kBlock);
    std::set<int64_t> seen;
    for (int64_t t = std::max<int64_t>(0, first - capacity + 1); t < first; ++t)
      seen.insert(cache.row(0, t));
    for (int64_t t = first; t < first + kBlock; ++t)
      EXPECT_EQ(seen.count(cache.row(0, t)), 0u) << capacity;
  }
}

TEST(KvCache, CopiesAreEqualAndIndependent) {
  for (int64_t length : {3, 100, 500}) {  // within a block, within the window, far past it
    KvCache cache(config(), 2, 130, DType::f32);
    for (int64_t t = 0; t < length; ++t) {
      cache.extend(0, 1);
      for (int64_t layer = 0; layer < 2; ++layer) {
        cache.keys(layer).row<float>(cache.row(0, t))[0] = static_cast<float>(10 * t + layer);
        cache.values(layer).row<float>(cache.row(0, t))[0] = static_cast<float>(-10 * t - layer);
      }
    }
    cache.extend(1, 17);  // to be forgotten
    cache.copy(0, 1);
    EXPECT_EQ(cache.length(1), length);
    for (int64_t t = std::max<int64_t>(0, length - 130); t < length; ++t) {
      for (int64_t layer = 0; layer < 2; ++layer) {
        ASSERT_EQ(cache.keys(layer).row<float>(cache.row(1, t))[0], static_cast<float>(10 * t + layer));
        ASSERT_EQ(cache.values(layer).row<float>(cache.row(1, t))[0], static_cast<float>(-10 * t - layer));
      }
    }
    cache.keys(0).row<float>(cache.row(1, length - 1))[0] = 1e9f;
    EXPECT_EQ(cache.keys(0).row<float>(cache.row(0, length - 1))[0], static_cast<float>(10 * (length - 1)));
    cache.reset(0);
    EXPECT_EQ(cache.length(0), 0);
    EXPECT_EQ(cache.length(1), length);
  }
}

TEST(KvCache, CountsItsMemoryAndRefusesTooMuch) {
  const ModelConfig c = config();
  // Two layers of keys and values for three slots of 100 tokens: two blocks and a spare one each.
  EXPECT_EQ(KvCache::bytes(c, 3, 100, DType::f32), 2 * 2 * 3 * (3 * kBlock) * c.kv_dim() * 4);
  EXPECT_THROW(KvCache(c, 1, int64_t{1} << 55, DType::f32), Error);
  EXPECT_THROW(KvCache(c, 1000000, int64_t{1} << 40, DType::f32), Error);
}

}  // namespace
}  // namespace gpt
