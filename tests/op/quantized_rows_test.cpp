#include <gtest/gtest.h>

#include <limits>

#include "kernels/quant.h"
#include "op/quantized.h"

// Products with rows of blocks as files have them: the bits of the reference on every instruction set,
// whatever the number of rows, the types of the activations and the number of threads.

namespace gpt {
namespace {

constexpr DType kTypes[] = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                            DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};

// Rows of blocks. Random bytes hold what quantising never makes; their scales are kept below 2.
struct Blocks {
  DType dtype;
  std::vector<uint8_t> bytes;
  TensorView view;

  Blocks(DType type, int64_t out, int64_t in)
      : dtype(type),
        bytes(static_cast<size_t>(out * row_bytes(type, in))),
        view(make_view(bytes.data(), type, {out, in})) {}

  static Blocks quantized(DType type, int64_t out, int64_t in, const std::vector<float>& w) {
    Blocks blocks(type, out, in);
    for (int64_t r = 0; r < out; ++r)
      quantize_row(type, w.data() + r * in, in, blocks.view.row_range(r, 1).data);
    return blocks;
  }
  static Blocks random(DType type, int64_t out, int64_t in) {
    Blocks blocks(type, out, in);
    RandomStream random(11, RandomSite::test);
    for (uint8_t& b : blocks.bytes)
      b = static_cast<uint8_t>(random.next_u64());
    const auto size = static_cast<size_t>(block_size(type).bytes);
    for (size_t i = 0; i < blocks.bytes.size(); i += size) {
      for (const size_t scale : scales(type))
        blocks.bytes[i + scale + 1] = static_cast<uint8_t>(blocks.bytes[i + scale + 1] & 0xbf);
    }
    return blocks;
  }
  // Where the fp16 numbers of a block are.
  static std::vector<size_t> scales(DType type) {
    if (type == DType::q6_k) return {208};
    return has_minimum(type) ? std::vector<size_t>{0, 2} : std::vector<size_t>{0};
  }
};

Stored multiply(const KernelTable& kernels, const TensorView& w, const TensorView& x, DType y_dtype,
                const std::vector<float>& bias, int threads) {
  Stored y(y_dtype, x.rows(), w.rows(), {});
  ThreadPool pool(threads);
  Workspace workspace(linear_scratch(x.rows(), w.rows(), w.cols(), w.dtype), threads);
  kernels.linear_forward(ExecContext{pool, kernels, workspace.scratch()},
                         {.y = y.view,
                          .x = x,
                          .w = w,
                          .bias = bias.empty() ? TensorView{} : make_view(bias.data(), {w.rows()})});
  return y;
}

class QuantizedRows : public ::testing::TestWithParam<Isa> {
 protected:
  const KernelTable& kernels() const { return kernel_table(GetParam()); }
  static const KernelTable& reference() { return kernel_table(Isa::ref); }
};

TEST_P(QuantizedRows, HaveTheBitsOfTheReference) {
  for (const DType dtype : kTypes) {
    const int64_t n = block_size(dtype).elements;
    for (const ProductShape& s :
         {ProductShape{1, 40, 2 * n}, ProductShape{7, 33, 3 * n}, ProductShape{13, 100, 1280},
          ProductShape{101, 64, n}, ProductShape{1, 700, 2304}, ProductShape{2, 5, 17 * n}}) {
      const std::vector<float> x = random_values(s.rows * s.in, 2), bias = random_values(s.out, 3);
      for (const bool noise : {false, true}) {
        const Blocks w = noise ? Blocks::random(dtype, s.out, s.in)
                               : Blocks::quantized(dtype, s.out, s.in, random_values(s.out * s.in, 1));
        for (const DType act : {DType::f32, DType::bf16, DType::f16}) {
          const Stored in(act, s.rows, s.in, x);
          const Stored want = multiply(reference(), w.view, in.view, act, bias, 1);
          for (const int threads : {1, 3}) {
            const Stored got = multiply(kernels(), w.view, in.view, act, bias, threads);
            EXPECT_TRUE(same(got.view, want.view))
                << dtype_name(dtype) << ", " << dtype_name(act) << ", " << s.rows << " rows, " << s.in
                << " to " << s.out << (noise ? ", random bytes" : "");
          }
        }
      }
    }
  }
}

// The products are those of the dequantised weights, but for the rounding of the activations.
TEST_P(QuantizedRows, AreProductsOfTheDequantisedWeights) {
  constexpr int64_t kRows = 3, kOut = 37, kIn = 512;
  const std::vector<float> x = random_values(kRows * kIn, 2);
  for (const DType dtype : kTypes) {
    const Blocks w = Blocks::quantized(dtype, kOut, kIn, random_values(kOut * kIn, 1));
    const Stored y = multiply(kernels(), w.view, make_view(x.data(), {kRows, kIn}), DType::f32, {}, 1);
    for (int64_t o = 0; o < kOut; ++o) {
      std::vector<float> row(kIn);
      dequantize_row(dtype, w.view.row_range(o, 1).data, kIn, row.data());
      for (int64_t r = 0; r < kRows; ++r) {
        double want = 0, bound = 0;
        for (int64_t j = 0; j < kIn; ++j) {
          want += double{row[static_cast<size_t>(j)]} * x[static_cast<size_t>(r * kIn + j)];
          bound += std::abs(row[static_cast<size_t>(j)]);
        }
        // Half a step of int8, of blocks whose largest value is below 5.
        EXPECT_NEAR(y.view.row<float>(r)[o], want, bound * 5 / 127 / 2) << dtype_name(dtype);
      }
    }
  }
}

TEST_P(QuantizedRows, BitsOfARowDoNotDependOnTheOthers) {
  constexpr int64_t kRows = 67, kOut = 70, kIn = 768;
  const std::vector<float> x = random_values(kRows * kIn, 2);
  const TensorView all_rows = make_view(x.data(), {kRows, kIn});
  for (const DType dtype : kTypes) {
    const Blocks w = Blocks::random(dtype, kOut, kIn);
    const Stored all = multiply(kernels(), w.view, all_rows, DType::f32, {}, 2);
    for (int64_t rows = 1; rows < kRows; rows += rows < 10 ? 1 : 19) {
      const int64_t first = (kRows - rows) / 2;
      const Stored part = multiply(kernels(), w.view, all_rows.row_range(first, rows), DType::f32, {}, 1);
      EXPECT_TRUE(same(part.view, all.view.row_range(first, rows))) << dtype_name(dtype) << ", " << rows;
    }
  }
}

TEST_P(QuantizedRows, BlocksThatAreNoNumbers) {
  constexpr int64_t kRows = 5, kOut = 33, kIn = 512;
  std::vector<float> x = random_values(kRows * kIn, 2);
  std::fill_n(x.begin(), 32, 0.0f);
  std::fill_n(x.begin() + kIn, 32, 1e-40f);
  x[2 * kIn + 40] = std::numeric_limits<float>::quiet_NaN();
  x[3 * kIn + 70] = -std::numeric_limits<float>::infinity();
  for (const DType dtype : kTypes) {
    Blocks w = Blocks::quantized(dtype, kOut, kIn, random_values(kOut * kIn, 1));
    const f16 infinite = to_f16(std::numeric_limits<float>::infinity());
    std::memcpy(w.bytes.data() + 3 * row_bytes(dtype, kIn) + Blocks::scales(dtype)[0], &infinite, 2);
    const TensorView in = make_view(x.data(), {kRows, kIn});
    const Stored want = multiply(reference(), w.view, in, DType::f32, {}, 1);
    EXPECT_TRUE(same(multiply(kernels(), w.view, in, DType::f32, {}, 1).view, want.view))
        << dtype_name(dtype);
    for (int64_t r = 0; r < kRows; ++r)
      EXPECT_EQ(std::isnan(want.view.row<float>(r)[0]), r == 2 || r == 3) << r;
    EXPECT_FALSE(std::isfinite(want.view.row<float>(4)[3]));
  }
}

TEST_P(QuantizedRows, ApplyTheActivation) {
  constexpr int64_t kRows = 9, kOut = 70, kIn = 256;
  const std::vector<float> x = random_values(kRows * kIn, 2);
  const Blocks w = Blocks::quantized(DType::q4_k, kOut, kIn, random_values(kOut * kIn, 1));
  const TensorView in = make_view(x.data(), {kRows, kIn});
  const Stored sums = multiply(kernels(), w.view, in, DType::f32, {}, 1);
  Stored y(DType::f32, kRows, kOut, {}), pre(DType::bf16, kRows, kOut, {});
  ThreadPool pool(2);
  Workspace workspace(linear_scratch(kRows, kOut, kIn, DType::q4_k), 2);
  kernels().linear_forward(ExecContext{pool, kernels(), workspace.scratch()},
                           {.y = y.view, .x = in, .w = w.view, .act = Act::relu, .pre = pre.view});
  for (int64_t i = 0; i < kRows * kOut; ++i) {
    EXPECT_EQ(y.view.as<float>()[i], std::max(0.0f, sums.view.as<float>()[i]));
    EXPECT_EQ(pre.view.as<bf16>()[i].bits, to_bf16(sums.view.as<float>()[i]).bits);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, QuantizedRows, ::testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

}  // namespace
}  // namespace gpt
