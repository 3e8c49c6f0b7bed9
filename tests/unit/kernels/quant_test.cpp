#include "kernels/quant.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace gpt {
namespace {

using Values = std::array<float, kQuantBlock>;

template <class Block>
Values round_trip(const Values& x) {
  Block block;
  quantize_block(x.data(), block);
  Values y;
  const DType dtype = sizeof(Block) == sizeof(BlockQ8) ? DType::q8_0 : DType::q4_0;
  dequantize_row(dtype, &block, kQuantBlock, y.data());
  return y;
}

TEST(Quant, SizesOfRows) {
  EXPECT_EQ(row_bytes(DType::q8_0, 0), 0);
  EXPECT_EQ(row_bytes(DType::q8_0, 64), 68);
  EXPECT_EQ(row_bytes(DType::q4_0, 64), 36);
}

TEST(Quant, Q8KeepsMultiplesOfTheScaleAndRoundsTiesAway) {
  Values x{};
  x[0] = -127;  // so d = 1
  x[1] = 2.5f;
  x[2] = -2.5f;
  x[3] = std::nextafter(0.5f, 0.0f);
  x[4] = 0.5f;
  x[5] = 126;
  BlockQ8 block;
  quantize_block(x.data(), block);
  EXPECT_EQ(block.d.bits, 0x3c00);  // 1.0
  EXPECT_EQ(block.q[0], -127);
  EXPECT_EQ(block.q[1], 3);
  EXPECT_EQ(block.q[2], -3);
  EXPECT_EQ(block.q[3], 0);
  EXPECT_EQ(block.q[4], 1);
  EXPECT_EQ(block.q[5], 126);
  EXPECT_EQ(block.q[31], 0);
}

TEST(Quant, Q4TakesTheSignOfTheFirstLargest) {
  Values x{};
  x[1] = 8;   // the largest; -8 comes later and does not count
  x[2] = -8;  // / d = 8, which is cut to 7
  x[16] = 3.5f;
  x[17] = 4;
  BlockQ4 block;
  quantize_block(x.data(), block);
  EXPECT_EQ(to_float(block.d), -1);
  EXPECT_EQ(block.q[0] & 15, 8);
  EXPECT_EQ(block.q[1] & 15, 0);
  EXPECT_EQ(block.q[2] & 15, 15);
  EXPECT_EQ(block.q[0] >> 4, 5);  // -3.5 + 8.5 = 5
  EXPECT_EQ(block.q[1] >> 4, 4);
}

TEST(Quant, ErrorIsAtMostHalfAStepAndTheRoundingOfTheScale) {
  RandomStream random(3, RandomSite::test);
  for (int trial = 0; trial < 1000; ++trial) {
    Values x;
    float largest = 0;
    for (float& v : x) {
      v = static_cast<float>(random.normal());
      largest = std::max(largest, std::abs(v));
    }
    const Values y8 = round_trip<BlockQ8>(x), y4 = round_trip<BlockQ4>(x);
    for (size_t j = 0; j < x.size(); ++j) {
      EXPECT_LE(std::abs(x[j] - y8[j]), largest * (0.5f / 127 + 0x1p-11f) * 1.0001f);
      // The positive end is cut: 8 steps become 7.
      EXPECT_LE(std::abs(x[j] - y4[j]), largest * (1.0f / 8 + 0x1p-11f) * 1.0001f);
    }
  }
}

TEST(Quant, BlocksThatAreNoNumbers) {
  const Values zeros{};
  EXPECT_EQ(round_trip<BlockQ8>(zeros), zeros);
  EXPECT_EQ(round_trip<BlockQ4>(zeros), zeros);
  Values tiny{};
  tiny[7] = 1e-40f;
  EXPECT_EQ(round_trip<BlockQ8>(tiny), zeros);
  EXPECT_EQ(round_trip<BlockQ4>(tiny), zeros);
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Values x{};
    x[5] = bad;
    for (const float y : round_trip<BlockQ8>(x))
      EXPECT_TRUE(std::isnan(y));
    for (const float y : round_trip<BlockQ4>(x))
      EXPECT_TRUE(std::isnan(y));
  }
}

TEST(Quant, RowsAreBlocksOneAfterAnother) {
  for (const DType dtype : {DType::q8_0, DType::q4_0}) {
    std::vector<float> x(96), y(96), block(32);
    RandomStream random(5, RandomSite::test);
    for (float& v : x)
      v = static_cast<float>(random.normal());
    std::vector<std::byte> row(static_cast<size_t>(row_bytes(dtype, 96)));
    quantize_row(dtype, x.data(), 96, row.data());
    dequantize_row(dtype, row.data(), 96, y.data());
    dequantize_row(dtype, row.data() + row_bytes(dtype, 64), 32, block.data());
    EXPECT_TRUE(std::equal(block.begin(), block.end(), y.begin() + 64));
  }
}

}  // namespace
}  // namespace gpt
