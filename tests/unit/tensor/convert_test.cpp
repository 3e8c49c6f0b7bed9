#include "tensor/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/error_of.h"
#include "support/names.h"
#include "tensor/buffer.h"
#include "tensor/half.h"

namespace gpt {
namespace {

// Returns the value of a small float by definition: (-1)^s * 2^(e-bias) * 1.f, or 2^(1-bias) * 0.f.
double by_definition(uint32_t bits, int exponent_bits, int fraction_bits) {
  const uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const uint32_t exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
  const double sign = bits >> (fraction_bits + exponent_bits) & 1 ? -1.0 : 1.0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double f = std::ldexp(static_cast<double>(fraction), -fraction_bits);
  if (exponent == (1u << exponent_bits) - 1) {
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(f, 1 - bias);
  return sign * std::ldexp(1 + f, static_cast<int>(exponent) - bias);
}

void expect_equal(float found, double expected, uint32_t bits) {
  if (std::isnan(expected)) {
    ASSERT_TRUE(std::isnan(found)) << bits;
    return;
  }
  ASSERT_EQ(double{found}, expected) << bits;
  ASSERT_EQ(std::signbit(found), std::signbit(expected)) << bits;
}

TEST(HalfPrecision, EveryValueIsWhatTheFormatDefines) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    expect_equal(to_float(f16{static_cast<uint16_t>(bits)}), by_definition(bits, 5, 10), bits);
    expect_equal(to_float(bf16{static_cast<uint16_t>(bits)}), by_definition(bits, 8, 7), bits);
  }
}

TEST(ConvertMatrix, UnalignedTransposedAndFromARow) {
  // The memory contains [3,4] fp16 values 0..11 at an odd address.
  std::vector<std::byte> memory(3 * 4 * 2 + 1);
  for (int i = 0; i < 12; ++i) {
    const auto exponent = i == 0 ? 0u : static_cast<uint32_t>(std::ilogb(i)) + 15u;
    const auto bits =
        i == 0 ? uint16_t{0}
               : static_cast<uint16_t>(
                     exponent << 10 | static_cast<uint32_t>((i / std::ldexp(1.0, std::ilogb(i)) - 1) * 1024));
    std::memcpy(memory.data() + 1 + 2 * i, &bits, 2);
  }
  RawMatrix m{.bytes = std::span(memory).subspan(1), .dtype = DType::f16, .rows = 3, .cols = 4};
  float straight[8];
  m.first_row = 1;
  convert_matrix(m, make_view(straight, {2, 4}));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(straight[i], static_cast<float>(4 + i));
  double turned[6];
  m.first_row = 2;
  m.transposed = true;  // the logical matrix is [4,3]; its rows 2 and 3 are columns 2 and 3
  convert_matrix(m, make_view(turned, {2, 3}));
  const double expected[] = {2, 6, 10, 3, 7, 11};
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(turned[i], expected[i]);
}

TEST(EmitMatrix, IsTheInverse) {
  float a[] = {1, 2, 3, 4, 5, 6}, b[] = {7, 8, 9};
  const std::vector<TensorView> parts = {make_view(a, {2, 3}), make_view(b, {1, 3})};
  for (bool transposed : {false, true}) {
    std::vector<float> found;
    emit_matrix(parts, transposed, DType::f32, [&](std::span<const std::byte> bytes) {
      const size_t at = found.size();
      found.resize(at + bytes.size() / sizeof(float));
      std::memcpy(found.data() + at, bytes.data(), bytes.size());
    });
    const std::vector<float> expected = transposed ? std::vector<float>{1, 4, 7, 2, 5, 8, 3, 6, 9}
                                                   : std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9};
    EXPECT_EQ(found, expected);
  }
}

TEST(TensorView, ColumnsAndRows) {
  double x[24];
  for (int i = 0; i < 24; ++i)
    x[i] = i;
  const TensorView v = make_view(x, {2, 3, 4});
  EXPECT_EQ(v.rows(), 6);
  EXPECT_EQ(v.cols(), 4);
  EXPECT_EQ(v.size(), 24);
  EXPECT_TRUE(v.dense());
  const TensorView c = v.slice_cols(1, 2);
  EXPECT_EQ(c.row<double>(5)[1], 22);
  EXPECT_FALSE(c.dense());
  const TensorView r = c.slice_rows(2, 3);
  EXPECT_EQ(r.rows(), 3);
  EXPECT_EQ(r.row<double>(0)[0], 9);
  EXPECT_EQ(shape_string(v.dims()), "[2,3,4]");
  EXPECT_FALSE(TensorView{});
}

TEST(CheckedSize, RefusesWhatCannotBe) {
  EXPECT_EQ(checked_size(Shape{}, "x"), 1);
  EXPECT_EQ(checked_size(Shape{3, 0, 5}, "x"), 0);
  EXPECT_THROW(checked_size(Shape{3, -1}, "x"), Error);
  EXPECT_THROW(checked_size(Shape{int64_t{1} << 32, int64_t{1} << 32}, "x"), Error);
}

TEST(Buffer, IsZeroedAlignedAndHonest) {
  Buffer b(100000, "test");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b.data()) % 4096, 0u);
  for (size_t i = 0; i < b.size(); ++i)
    ASSERT_EQ(b.data()[i], std::byte{0});
  Buffer moved = std::move(b);
  EXPECT_EQ(moved.size(), 100000u);
  EXPECT_EQ(Buffer(0, "nothing").data(), nullptr);
  EXPECT_TRUE(test::names(test::error_of([] { Buffer(size_t{1} << 60, "moon"); }), {"moon"}));
}

}  // namespace
}  // namespace gpt
