#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "kernels/quant.h"
#include "op/quantized.h"

// Quantised products have the bits of the reference on every instruction set, whatever the number of rows,
// the types of the activations and the number of threads.

namespace gpt {
namespace {

struct Weights {
  Weights(const KernelTable& kernels, DType dtype, std::vector<TensorView> parts) {
    ThreadPool pool(2);
    int64_t out = 0;
    for (const TensorView& part : parts)
      out += part.rows();
    const int64_t in = parts[0].cols();
    memory = Buffer(static_cast<size_t>(packed_bytes(kernels.isa, dtype, out, in, false)), "weights");
    matrix = {.data = memory.data(), .dtype = dtype, .out = out, .in = in};
    kernels.pack_matrix(ExecContext{pool, kernels, {}}, {.dst = &matrix, .parts = parts});
  }
  Buffer memory;
  PackedMatrix matrix;
};

Stored multiply(const KernelTable& kernels, const PackedMatrix& w, const TensorView& x, DType y_dtype,
                const std::vector<float>& bias, int threads) {
  Stored y(y_dtype, x.rows(), w.out, {});
  ThreadPool pool(threads);
  Workspace workspace(linear_scratch(x.rows(), w.out, w.in, w.dtype), threads);
  kernels.linear_forward(ExecContext{pool, kernels, workspace.scratch()},
                         {.y = y.view,
                          .x = x,
                          .bias = bias.empty() ? TensorView{} : make_view(bias.data(), {w.out}),
                          .packed = &w});
  return y;
}

class QuantizedProduct : public ::testing::TestWithParam<Isa> {
 protected:
  const KernelTable& kernels() const { return kernel_table(GetParam()); }
  static const KernelTable& reference() { return kernel_table(Isa::ref); }
};

constexpr DType kTypes[] = {DType::q8_0, DType::q4_0};

TEST_P(QuantizedProduct, HasTheBitsOfTheReference) {
  for (const DType dtype : kTypes) {
    for (const ProductShape& s :
         {ProductShape{1, 40, 64}, ProductShape{7, 33, 96}, ProductShape{13, 100, 320},
          ProductShape{101, 64, 128}, ProductShape{1, 700, 2048}}) {
      const std::vector<float> w = random_values(s.out * s.in, 1), x = random_values(s.rows * s.in, 2);
      const std::vector<float> bias = random_values(s.out, 3);
      const TensorView part = make_view(w.data(), {s.out, s.in});
      const Weights want_w(reference(), dtype, {part}), got_w(kernels(), dtype, {part});
      for (const DType act : {DType::f32, DType::bf16, DType::f16}) {
        const Stored in(act, s.rows, s.in, x);
        const Stored want = multiply(reference(), want_w.matrix, in.view, act, bias, 1);
        for (const int threads : {1, 2, 3, 7}) {
          const Stored got = multiply(kernels(), got_w.matrix, in.view, act, bias, threads);
          EXPECT_TRUE(same(got.view, want.view)) << dtype_name(dtype) << ", " << dtype_name(act) << ", "
                                                 << s.rows << " rows, " << s.in << " to " << s.out;
        }
      }
    }
  }
}

TEST_P(QuantizedProduct, BitsOfARowDoNotDependOnTheOthers) {
  constexpr int64_t kRows = 230, kOut = 70, kIn = 256;
  const std::vector<float> w = random_values(kOut * kIn, 1), x = random_values(kRows * kIn, 2);
  const TensorView all_rows = make_view(x.data(), {kRows, kIn});
  for (const DType dtype : kTypes) {
    const Weights weights(kernels(), dtype, {make_view(w.data(), {kOut, kIn})});
    const Stored all = multiply(kernels(), weights.matrix, all_rows, DType::f32, {}, 2);
    for (int64_t rows = 1; rows < kRows; rows += rows < 20 ? 1 : 31) {
      const int64_t first = (kRows - rows) / 2;
      const Stored part =
          multiply(kernels(), weights.matrix, all_rows.row_range(first, rows), DType::f32, {}, 1);
      EXPECT_TRUE(same(part.view, all.view.row_range(first, rows))) << rows << " rows";
    }
  }
}

// A file's blocks may hold what quantising never makes: -128, scales of any sign, infinite ones.
TEST_P(QuantizedProduct, TakesRowsOfBlocksAsTheyAre) {
  constexpr int64_t kRows = 8, kOut = 37, kIn = 160;
  RandomStream random(11, RandomSite::test);
  const std::vector<float> x = random_values(kRows * kIn, 2);
  const TensorView in = make_view(x.data(), {kRows, kIn});
  for (const DType dtype : kTypes) {
    const int64_t bytes = row_bytes(dtype, kIn), block = row_bytes(dtype, 32);
    std::vector<uint8_t> blocks(static_cast<size_t>(kOut * bytes));
    for (uint8_t& b : blocks)
      b = static_cast<uint8_t>(random.next_u64());
    for (size_t i = 0; i < blocks.size(); i += static_cast<size_t>(block))
      blocks[i + 1] = static_cast<uint8_t>(blocks[i + 1] & 0xbf);  // a scale below 2
    const f16 infinite = to_f16(std::numeric_limits<float>::infinity());
    std::memcpy(blocks.data() + 3 * bytes, &infinite, 2);
    // Two parts; rows of a wider matrix would be `ld` elements apart.
    const std::vector<TensorView> parts = {make_view(blocks.data(), dtype, {10, kIn}),
                                           make_view(blocks.data() + 10 * bytes, dtype, {kOut - 10, kIn})};
    const Weights want_w(reference(), dtype, parts), got_w(kernels(), dtype, parts);
    EXPECT_EQ(std::memcmp(want_w.matrix.data, blocks.data(), blocks.size()), 0);
    const Stored want = multiply(reference(), want_w.matrix, in, DType::f32, {}, 1);
    EXPECT_TRUE(same(multiply(kernels(), got_w.matrix, in, DType::f32, {}, 1).view, want.view));
    EXPECT_FALSE(std::isfinite(want.view.as<float>()[3]));
  }
}

TEST_P(QuantizedProduct, BlocksAndTheirFloatsPackAlike) {
  constexpr int64_t kOut = 37, kIn = 96;
  const std::vector<float> w = random_values(kOut * kIn, 1);
  for (const DType dtype : kTypes) {
    std::vector<std::byte> blocks(static_cast<size_t>(kOut * row_bytes(dtype, kIn)));
    for (int64_t r = 0; r < kOut; ++r)
      quantize_row(dtype, w.data() + r * kIn, kIn, blocks.data() + r * row_bytes(dtype, kIn));
    const Weights a(kernels(), dtype, {make_view(w.data(), {kOut, kIn})});
    const Weights b(kernels(), dtype, {make_view(blocks.data(), dtype, {kOut, kIn})});
    EXPECT_EQ(std::memcmp(a.matrix.data, b.matrix.data, a.memory.size()), 0);
  }
}

TEST_P(QuantizedProduct, BlocksOfActivationsThatAreNoNumbers) {
  constexpr int64_t kRows = 6, kOut = 33, kIn = 96;
  const std::vector<float> w = random_values(kOut * kIn, 1);
  std::vector<float> x = random_values(kRows * kIn, 2);
  std::fill_n(x.begin(), 32, 0.0f);
  std::fill_n(x.begin() + kIn, 32, 1e-40f);
  x[2 * kIn + 40] = std::numeric_limits<float>::quiet_NaN();
  x[3 * kIn + 70] = -std::numeric_limits<float>::infinity();
  x[4 * kIn + 5] = 3e38f;
  const TensorView in = make_view(x.data(), {kRows, kIn}), part = make_view(w.data(), {kOut, kIn});
  for (const DType dtype : kTypes) {
    const Weights want_w(reference(), dtype, {part}), got_w(kernels(), dtype, {part});
    const Stored want = multiply(reference(), want_w.matrix, in, DType::f32, {}, 1);
    EXPECT_TRUE(same(multiply(kernels(), got_w.matrix, in, DType::f32, {}, 1).view, want.view));
    for (int64_t r = 0; r < kRows; ++r)
      EXPECT_EQ(std::isnan(want.view.row<float>(r)[0]), r == 2 || r == 3) << r;
  }
}

TEST_P(QuantizedProduct, AppliesTheActivation) {
  constexpr int64_t kRows = 9, kOut = 70, kIn = 64;
  const std::vector<float> w = random_values(kOut * kIn, 1), x = random_values(kRows * kIn, 2);
  const Weights weights(kernels(), DType::q8_0, {make_view(w.data(), {kOut, kIn})});
  const TensorView in = make_view(x.data(), {kRows, kIn});
  const Stored sums = multiply(kernels(), weights.matrix, in, DType::f32, {}, 1);
  for (const DType act : {DType::f32, DType::bf16, DType::f16}) {
    Stored y(act, kRows, kOut, {}), pre(act, kRows, kOut, {});
    ThreadPool pool(2);
    Workspace workspace(linear_scratch(kRows, kOut, kIn, DType::q8_0), 2);
    kernels().linear_forward(
        ExecContext{pool, kernels(), workspace.scratch()},
        {.y = y.view, .x = in, .packed = &weights.matrix, .act = Act::gelu, .pre = pre.view});
    std::vector<float> all(sums.view.as<float>(), sums.view.as<float>() + kRows * kOut);
    EXPECT_TRUE(same(pre.view, Stored(act, kRows, kOut, all).view));
    for (int64_t i = 0; i < kRows * kOut; ++i) {
      const double z = all[static_cast<size_t>(i)], want = z * 0.5 * std::erfc(-z / std::sqrt(2.0));
      const double got = act == DType::f32    ? double{y.view.as<float>()[i]}
                         : act == DType::bf16 ? to_float(y.view.as<bf16>()[i])
                                              : to_float(y.view.as<f16>()[i]);
      EXPECT_NEAR(got, want, (act == DType::f32 ? 1e-6 : 0x1p-8) * (1 + std::abs(want)));
    }
  }
}

TEST(QuantizedMatrix, HasNoPackedFormForOtherSizesOrDirections) {
  for (const Isa isa : kIsas) {
    EXPECT_EQ(packed_bytes(isa, DType::q8_0, 8, 48, false), 0);
    EXPECT_EQ(packed_bytes(isa, DType::q4_0, 64, 64, true), 0);
    EXPECT_GT(packed_bytes(isa, DType::q4_0, 64, 64, false), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, QuantizedProduct, ::testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

}  // namespace
}  // namespace gpt
