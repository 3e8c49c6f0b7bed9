// Tests matmuls with quantized weights, both packed and in the row format of model files. Results are
// bit-identical to the reference on every instruction set, for any number of rows, activation dtype and
// number of threads.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "kernels/quant.h"
#include "support/arrays.h"
#include "support/isas.h"
#include "support/random.h"

namespace gpt {
namespace {

struct ProductShape {
  int64_t rows, out, in;
};

std::vector<float> random_values(int64_t n, uint64_t seed) {
  RandomStream random(seed, RandomSite::test);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values)
    v = static_cast<float>(test::bell(random));
  return values;
}

// A tensor of a floating-point dtype that contains `values` rounded to this dtype.
struct Stored {
  std::vector<std::byte> bytes;
  TensorView view;

  Stored(DType dtype, int64_t rows, int64_t cols, const std::vector<float>& values)
      : bytes(static_cast<size_t>(rows * cols) * dtype_size(dtype)),
        view(make_view(bytes.data(), dtype, {rows, cols})) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::f32) view.as<float>()[i] = values[i];
      if (dtype == DType::bf16) view.as<bf16>()[i] = to_bf16(values[i]);
      if (dtype == DType::f16) view.as<f16>()[i] = to_f16(values[i]);
    }
  }
};

// Returns true if all elements are bit-identical or both NaN.
bool same(const TensorView& a, const TensorView& b) {
  for (int64_t i = 0; i < a.size(); ++i) {
    uint32_t x = 0, y = 0;
    float fx = 0, fy = 0;
    if (a.dtype == DType::f32) {
      fx = a.as<float>()[i], fy = b.as<float>()[i];
      std::memcpy(&x, &fx, 4), std::memcpy(&y, &fy, 4);
    } else {
      x = a.as<uint16_t>()[i], y = b.as<uint16_t>()[i];
      fx = a.dtype == DType::bf16 ? to_float(bf16{a.as<uint16_t>()[i]}) : to_float(f16{a.as<uint16_t>()[i]});
      fy = b.dtype == DType::bf16 ? to_float(bf16{b.as<uint16_t>()[i]}) : to_float(f16{b.as<uint16_t>()[i]});
    }
    if (x != y && !(std::isnan(fx) && std::isnan(fy))) return false;
  }
  return true;
}

struct Form {
  DType dtype;
  bool packed;
};
constexpr Form kForms[] = {{DType::q8_0, true},  {DType::q4_0, true},    {DType::q8_0, false},
                           {DType::q4_0, false}, {DType::q4_1, false},   {DType::q5_0, false},
                           {DType::q5_1, false}, {DType::iq4_nl, false}, {DType::q4_k, false},
                           {DType::q5_k, false}, {DType::q6_k, false}};
constexpr DType kActs[] = {DType::f32, DType::bf16, DType::f16};

void PrintTo(const Form& f, std::ostream* out) {
  *out << dtype_name(f.dtype) << (f.packed ? ", packed" : ", rows of blocks");
}

// Returns the byte offsets of the fp16 scales within a quantization block.
std::vector<size_t> scales(DType type) {
  if (type == DType::q6_k) return {208};
  return has_minimum(type) ? std::vector<size_t>{0, 2} : std::vector<size_t>{0};
}

std::vector<uint8_t> quantized(DType type, int64_t out, int64_t in, const std::vector<float>& w) {
  std::vector<uint8_t> blocks(static_cast<size_t>(out * row_bytes(type, in)));
  for (int64_t r = 0; r < out; ++r)
    quantize_row(type, w.data() + r * in, in, blocks.data() + r * row_bytes(type, in));
  return blocks;
}
// Returns random quantization blocks with values that quantization never produces: -128, scales of either
// sign, and scales below 2.
std::vector<uint8_t> random_blocks(DType type, int64_t out, int64_t in) {
  std::vector<uint8_t> blocks(static_cast<size_t>(out * row_bytes(type, in)));
  RandomStream random(11, RandomSite::test);
  for (uint8_t& b : blocks)
    b = static_cast<uint8_t>(random.next_u64());
  for (size_t i = 0; i < blocks.size(); i += static_cast<size_t>(block_size(type).bytes)) {
    for (const size_t scale : scales(type))
      blocks[i + scale + 1] = static_cast<uint8_t>(blocks[i + scale + 1] & 0xbf);
  }
  return blocks;
}

// Quantized weights as rows of quantization blocks, or as a matrix that a kernel table has packed from two
// parts.
struct Weights {
  Weights(const KernelTable& kernels, const Form& form, int64_t out, int64_t in,
          const std::vector<uint8_t>& blocks)
      : rows(make_view(const_cast<uint8_t*>(blocks.data()), form.dtype, {out, in})) {
    if (form.packed) pack(kernels, {rows.slice_rows(0, out / 3), rows.slice_rows(out / 3, out - out / 3)});
  }
  void pack(const KernelTable& kernels, std::vector<TensorView> parts) {
    ThreadPool pool(2);
    const int64_t out = rows.rows(), in = rows.cols();
    memory = Buffer(static_cast<size_t>(kernels.packed_bytes(rows.dtype, out, in, false)), "weights");
    matrix = {.data = memory.data(), .dtype = rows.dtype, .out = out, .in = in};
    kernels.pack_matrix(ExecContext{test::host(), pool, kernels, {}}, {.dst = matrix, .parts = parts});
  }
  TensorView rows;
  Buffer memory;
  PackedMatrix matrix = {};
};

// `args` contains all arguments except the weights.
void multiply(const KernelTable& kernels, const Weights& w, LinearArgs args, int threads = 1) {
  ThreadPool pool(threads);
  Workspace workspace(
      kernels.linear_scratch(args.x.rows(), w.rows.rows(), w.rows.cols(), w.rows.dtype, false), threads);
  if (w.matrix.data) {
    args.packed = w.matrix;
  } else {
    args.w = w.rows;
  }
  kernels.linear_forward(ExecContext{test::host(), pool, kernels, workspace.scratch()}, args);
}
Stored product(const KernelTable& kernels, const Weights& w, const TensorView& x, DType y_dtype = DType::f32,
               const TensorView& bias = {}, int threads = 1) {
  Stored y(y_dtype, x.rows(), w.rows.rows(), {});
  multiply(kernels, w, {.y = y.view, .x = x, .bias = bias}, threads);
  return y;
}

class Quantized : public ::testing::TestWithParam<Isa> {
 protected:
  const KernelTable& kernels() const { return kernel_table(GetParam()); }
  static const KernelTable& reference() { return kernel_table(Isa::ref); }
};

TEST_P(Quantized, HasTheBitsOfTheReference) {
  for (const Form& form : kForms) {
    const int64_t n = block_size(form.dtype).elements;
    for (const ProductShape& s :
         {ProductShape{1, 40, 2 * n}, ProductShape{7, 33, 3 * n}, ProductShape{13, 100, n == 32 ? 320 : 1280},
          ProductShape{101, 64, n == 32 ? 128 : n}, ProductShape{1, 700, 2304}, ProductShape{3, 9, n},
          ProductShape{2, 5, 17 * n}}) {
      const std::vector<float> x = random_values(s.rows * s.in, 2), bias = random_values(s.out, 3);
      const TensorView b = make_view(bias.data(), {s.out});
      for (const bool noise : {false, true}) {
        const std::vector<uint8_t> blocks =
            noise ? random_blocks(form.dtype, s.out, s.in)
                  : quantized(form.dtype, s.out, s.in, random_values(s.out * s.in, 1));
        const Weights want_w(reference(), form, s.out, s.in, blocks),
            got_w(kernels(), form, s.out, s.in, blocks);
        for (const DType act : kActs) {
          const Stored in(act, s.rows, s.in, x), want = product(reference(), want_w, in.view, act, b);
          for (const int threads : {1, 2, 3, 7}) {
            EXPECT_TRUE(same(product(kernels(), got_w, in.view, act, b, threads).view, want.view))
                << ::testing::PrintToString(form) << ", " << dtype_name(act) << ", " << s.rows << " rows, "
                << s.in << " to " << s.out << (noise ? ", random bytes" : "");
          }
        }
      }
    }
  }
}

// The results must match matmuls with the dequantized weights, apart from the rounding of the activations.
TEST_P(Quantized, AreProductsOfTheDequantisedWeights) {
  constexpr int64_t kRows = 3, kOut = 37, kIn = 512;
  const std::vector<float> x = random_values(kRows * kIn, 2);
  for (const Form& form : kForms) {
    const std::vector<uint8_t> blocks = quantized(form.dtype, kOut, kIn, random_values(kOut * kIn, 1));
    const Weights w(kernels(), form, kOut, kIn, blocks);
    const Stored y = product(kernels(), w, make_view(x.data(), {kRows, kIn}));
    for (int64_t o = 0; o < kOut; ++o) {
      std::vector<float> row(kIn);
      dequantize_row(form.dtype, w.rows.slice_rows(o, 1).data, kIn, row.data());
      for (int64_t r = 0; r < kRows; ++r) {
        double want = 0, bound = 0;
        for (int64_t j = 0; j < kIn; ++j) {
          want += double{row[static_cast<size_t>(j)]} * x[static_cast<size_t>(r * kIn + j)];
          bound += std::abs(row[static_cast<size_t>(j)]);
        }
        // The tolerance is half a step of int8, for blocks whose largest value is below 5.
        EXPECT_NEAR(y.view.row<float>(r)[o], want, bound * 5 / 127 / 2) << ::testing::PrintToString(form);
      }
    }
  }
}

TEST_P(Quantized, BitsOfARowDoNotDependOnTheOthers) {
  constexpr int64_t kOut = 70, kIn = 768;
  for (const Form& form : kForms) {
    const int64_t most = form.packed ? 230 : 67;
    const std::vector<float> x = random_values(most * kIn, 2);
    const TensorView all_rows = make_view(x.data(), {most, kIn});
    const std::vector<uint8_t> blocks = random_blocks(form.dtype, kOut, kIn);
    const Weights w(kernels(), form, kOut, kIn, blocks);
    const Stored all = product(kernels(), w, all_rows, DType::f32, {}, 2);
    for (int64_t rows = 1; rows < most; rows += rows < (form.packed ? 20 : 10) ? 1 : form.packed ? 31 : 19) {
      const int64_t first = (most - rows) / 2;
      EXPECT_TRUE(same(product(kernels(), w, all_rows.slice_rows(first, rows)).view,
                       all.view.slice_rows(first, rows)))
          << ::testing::PrintToString(form) << ", " << rows << " rows";
    }
  }
}

// Computes dy w from rows of quantization blocks. The result must be bit-identical to dy times the
// dequantized fp32 matrix.
TEST_P(Quantized, GradientsAreThoseOfTheDequantisedMatrix) {
  for (const Form& form : kForms) {
    if (form.packed) continue;
    const int64_t n = block_size(form.dtype).elements;
    std::vector<ProductShape> shapes = {{1, 9, n}, {17, 33, 2 * n}};
    if (form.dtype == DType::q8_0 && GetParam() != Isa::ref)  // more than one block of k and of rows
      shapes.insert(shapes.end(), {{5, 700, 64}, {201, 520, 160}});
    for (const ProductShape& s : shapes) {
      const std::vector<uint8_t> blocks = quantized(form.dtype, s.out, s.in, random_values(s.out * s.in, 1));
      const TensorView rows = make_view(const_cast<uint8_t*>(blocks.data()), form.dtype, {s.out, s.in});
      std::vector<float> plain(static_cast<size_t>(s.out * s.in));
      for (int64_t o = 0; o < s.out; ++o)
        dequantize_row(form.dtype, rows.slice_rows(o, 1).data, s.in, plain.data() + o * s.in);
      const std::vector<float> dy = random_values(s.rows * s.out, 2), x = random_values(s.rows * s.in, 3);
      for (const DType act : kActs) {
        const Stored in(act, s.rows, s.out, dy), pre(act, s.rows, s.in, x);
        const auto product = [&](const TensorView& w, bool accumulate, std::optional<Activation> slope,
                                 int threads) {
          ThreadPool pool(threads);
          const Workspace workspace(kernels().linear_scratch(s.rows, s.out, s.in, w.dtype, true), threads);
          Stored dx(act, s.rows, s.in, x);
          kernels().linear_backward_input(ExecContext{test::host(), pool, kernels(), workspace.scratch()},
                                          {.dx = dx.view,
                                           .dy = in.view,
                                           .w = w,
                                           .accumulate = accumulate,
                                           .act = slope,
                                           .pre = pre.view});
          return dx;
        };
        for (const auto& [accumulate, slope] :
             {std::pair<bool, std::optional<Activation>>{false, {}}, {true, {}}, {false, Activation::gelu}}) {
          const Stored want = product(make_view(plain.data(), {s.out, s.in}), accumulate, slope, 1);
          EXPECT_TRUE(same(product(rows, accumulate, slope, 3).view, want.view))
              << dtype_name(form.dtype) << ", " << dtype_name(act) << ", " << s.rows << " rows, " << s.out
              << " to " << s.in << (accumulate ? ", accumulate" : "");
        }
      }
    }
  }
}

// If the last span of a row is not full, kernels read past the end of the row. The values there must not
// affect the sums.
TEST_P(Quantized, ScalesOfTheNextRowThatAreNoNumbers) {
  constexpr int64_t kOut = 5;
  const std::vector<float> values = random_values(1024, 1);
  for (const Form& form : kForms) {
    for (const int64_t blocks : {1, 7, 24, 31}) {
      const int64_t n = block_size(form.dtype).elements, in = n * blocks, row = row_bytes(form.dtype, in);
      if (n > 32 && blocks > 3) continue;
      const Stored x(DType::f32, 1, in, std::vector<float>(values.begin(), values.begin() + in));
      std::vector<uint8_t> w = random_blocks(form.dtype, kOut, in);
      const Stored want = product(kernels(), Weights(kernels(), form, kOut, in, w), x.view);
      for (const size_t scale : scales(form.dtype))
        w[static_cast<size_t>(row) * (kOut - 1) + scale + 1] |= 0x7c;  // infinity or NaN
      const Stored got = product(kernels(), Weights(kernels(), form, kOut, in, w), x.view);
      EXPECT_TRUE(same(got.view.slice_cols(0, kOut - 1), want.view.slice_cols(0, kOut - 1)))
          << ::testing::PrintToString(form) << ", " << blocks << " blocks";
    }
  }
}

TEST_P(Quantized, BlocksThatAreNoNumbers) {
  constexpr int64_t kRows = 6, kOut = 33, kIn = 512;
  std::vector<float> x = random_values(kRows * kIn, 2);
  std::fill_n(x.begin(), 32, 0.0f);
  std::fill_n(x.begin() + kIn, 32, 1e-40f);
  x[2 * kIn + 40] = std::numeric_limits<float>::quiet_NaN();
  x[3 * kIn + 70] = -std::numeric_limits<float>::infinity();
  x[4 * kIn + 5] = 3e38f;
  const TensorView in = make_view(x.data(), {kRows, kIn});
  for (const Form& form : kForms) {
    std::vector<uint8_t> blocks = quantized(form.dtype, kOut, kIn, random_values(kOut * kIn, 1));
    const f16 infinite = to_f16(std::numeric_limits<float>::infinity());
    std::memcpy(blocks.data() + 3 * row_bytes(form.dtype, kIn) + scales(form.dtype)[0], &infinite, 2);
    const Stored want = product(reference(), {reference(), form, kOut, kIn, blocks}, in);
    EXPECT_TRUE(same(product(kernels(), {kernels(), form, kOut, kIn, blocks}, in).view, want.view))
        << ::testing::PrintToString(form);
    for (int64_t r = 0; r < kRows; ++r)
      EXPECT_EQ(std::isnan(want.view.row<float>(r)[0]), r == 2 || r == 3) << r;
    EXPECT_FALSE(std::isfinite(want.view.row<float>(5)[3]));
  }
}

TEST_P(Quantized, AppliesTheActivation) {
  constexpr int64_t kRows = 9, kOut = 70, kIn = 256;
  const std::vector<float> x = random_values(kRows * kIn, 2);
  const TensorView in = make_view(x.data(), {kRows, kIn});
  for (const Form& form : {Form{DType::q8_0, true}, Form{DType::q4_k, false}}) {
    const std::vector<uint8_t> blocks = quantized(form.dtype, kOut, kIn, random_values(kOut * kIn, 1));
    const Weights w(kernels(), form, kOut, kIn, blocks);
    const Stored sums = product(kernels(), w, in);
    const std::vector<float> all(sums.view.as<float>(), sums.view.as<float>() + kRows * kOut);
    for (const DType type : kActs) {
      Stored y(type, kRows, kOut, {}), pre(type, kRows, kOut, {});
      multiply(kernels(), w, {.y = y.view, .x = in, .act = Activation::relu, .pre = pre.view}, 2);
      std::vector<float> positive = all;
      for (float& z : positive)
        z = std::max(0.0f, z);
      EXPECT_TRUE(same(pre.view, Stored(type, kRows, kOut, all).view));
      EXPECT_TRUE(same(y.view, Stored(type, kRows, kOut, positive).view));
    }
    Stored y(DType::f32, kRows, kOut, {});
    multiply(kernels(), w, {.y = y.view, .x = in, .act = Activation::gelu}, 2);
    for (int64_t i = 0; i < kRows * kOut; ++i) {
      const double z = all[static_cast<size_t>(i)], want = z * 0.5 * std::erfc(-z / std::sqrt(2.0));
      EXPECT_NEAR(y.view.as<float>()[i], want, 1e-6 * (1 + std::abs(want)));
    }
  }
}

TEST_P(Quantized, BlocksAndTheirFloatsPackAlike) {
  constexpr int64_t kOut = 37, kIn = 96;
  const std::vector<float> w = random_values(kOut * kIn, 1);
  for (const DType dtype : {DType::q8_0, DType::q4_0}) {
    const std::vector<uint8_t> blocks = quantized(dtype, kOut, kIn, w);
    const Weights a(kernels(), {dtype, true}, kOut, kIn, blocks);
    Weights b(kernels(), {dtype, false}, kOut, kIn, blocks);
    b.pack(kernels(), {make_view(w.data(), {kOut, kIn})});
    EXPECT_EQ(std::memcmp(a.matrix.data, b.matrix.data, a.memory.size()), 0);
    if (GetParam() == Isa::ref) {
      EXPECT_EQ(std::memcmp(a.matrix.data, blocks.data(), blocks.size()), 0);
    }
  }
}

TEST(QuantizedMatrix, HasNoPackedFormForOtherSizesOrDirections) {
  for (const Isa isa : kIsas) {
    EXPECT_EQ(kernel_table(isa).packed_bytes(DType::q8_0, 8, 48, false), 0);
    EXPECT_EQ(kernel_table(isa).packed_bytes(DType::q4_0, 64, 64, true), 0);
    EXPECT_GT(kernel_table(isa).packed_bytes(DType::q4_0, 64, 64, false), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Quantized, ::testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

}  // namespace
}  // namespace gpt
