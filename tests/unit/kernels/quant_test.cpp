#include "kernels/quant.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "support/random.h"

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
  x[2] = -8;  // / d = 8, which is clamped to 7
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
      v = static_cast<float>(test::bell(random));
      largest = std::max(largest, std::abs(v));
    }
    const Values y8 = round_trip<BlockQ8>(x), y4 = round_trip<BlockQ4>(x);
    for (size_t j = 0; j < x.size(); ++j) {
      EXPECT_LE(std::abs(x[j] - y8[j]), largest * (0.5f / 127 + 0x1p-11f) * 1.0001f);
      // The positive end is clamped: 8 steps become 7.
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

constexpr DType kTypes[] = {DType::q8_0,   DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                            DType::iq4_nl, DType::q4_k, DType::q5_k, DType::q6_k};

TEST(Quant, RowsAreBlocksOneAfterAnother) {
  for (const DType dtype : kTypes) {
    const int64_t n = block_size(dtype).elements;
    const auto size = static_cast<size_t>(n);
    std::vector<float> x(3 * size), y(3 * size), block(size);
    RandomStream random(5, RandomSite::test);
    for (float& v : x)
      v = static_cast<float>(test::bell(random));
    std::vector<std::byte> row(static_cast<size_t>(row_bytes(dtype, 3 * n)));
    quantize_row(dtype, x.data(), 3 * n, row.data());
    dequantize_row(dtype, row.data(), 3 * n, y.data());
    dequantize_row(dtype, row.data() + row_bytes(dtype, 2 * n), n, block.data());
    EXPECT_TRUE(std::equal(block.begin(), block.end(), y.end() - n)) << dtype_name(dtype);
  }
}

// Computes the mean squared error for normally distributed values of variance 1. The bound is that of uniform
// steps, (range / steps)^2 / 12, plus a tenth. The range of 4.6 is slightly larger than the usual range of 32
// such values, which is about 4.1. Super-block types search for better scales, but round them to 6 bits.
TEST(Quant, ErrorIsThatOfTheBitsOfTheType) {
  constexpr int64_t kN = 256 * 64;
  RandomStream random(7, RandomSite::test);
  std::vector<float> x(kN), y(kN);
  for (float& v : x)
    v = static_cast<float>(test::bell(random));
  struct Case {
    DType dtype;
    double steps;
  };
  for (const Case& c : {Case{DType::q8_0, 254}, Case{DType::q4_0, 15}, Case{DType::q4_1, 15},
                        Case{DType::q5_0, 31}, Case{DType::q5_1, 31}, Case{DType::iq4_nl, 15},
                        Case{DType::q4_k, 15}, Case{DType::q5_k, 31}, Case{DType::q6_k, 63}}) {
    std::vector<std::byte> row(static_cast<size_t>(row_bytes(c.dtype, kN)));
    quantize_row(c.dtype, x.data(), kN, row.data());
    dequantize_row(c.dtype, row.data(), kN, y.data());
    double error = 0;
    for (size_t i = 0; i < x.size(); ++i)
      error += (x[i] - y[i]) * (x[i] - y[i]);
    EXPECT_LT(error / kN, 1.1 * std::pow(4.6 / c.steps, 2) / 12) << dtype_name(c.dtype);
  }
}

// The scales of tiny values are zero in fp16, and their reciprocals are infinite.
TEST(Quant, TinyNumbersAreZeros) {
  for (const DType dtype : kTypes) {
    for (const float tiny : {1e-30f, 1e-37f, 2e-38f, 1.2e-38f, 1e-40f}) {
      std::vector<float> x(256), y(256, 1);
      for (size_t i = 0; i < x.size(); i += 3)
        x[i] = i % 2 == 0 ? tiny : -tiny / 2;
      std::vector<std::byte> row(static_cast<size_t>(row_bytes(dtype, 256)));
      quantize_row(dtype, x.data(), 256, row.data());
      dequantize_row(dtype, row.data(), 256, y.data());
      for (const float v : y)
        EXPECT_EQ(v, 0) << dtype_name(dtype) << " " << tiny;
    }
  }
}

TEST(Quant, ZerosStayAndWhatIsNoNumberMakesItsBlockNone) {
  for (const DType dtype : kTypes) {
    std::vector<float> x(256), y(256);
    std::vector<std::byte> row(static_cast<size_t>(row_bytes(dtype, 256)));
    quantize_row(dtype, x.data(), 256, row.data());
    dequantize_row(dtype, row.data(), 256, y.data());
    EXPECT_EQ(x, y) << dtype_name(dtype);
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      x[5] = bad;
      quantize_row(dtype, x.data(), 256, row.data());
      dequantize_row(dtype, row.data(), 256, y.data());
      EXPECT_TRUE(std::isnan(y[4])) << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace gpt
