#include "model/planner.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/rope_table.h"
#include "support/small_models.h"

namespace gpt {
namespace {

TEST(Planner, ReservesAlignedAndSharesAfterARewind) {
  Planner planner({.rows = 3}, kernel_table(Isa::ref));
  TensorView a, b, c, d;
  planner.reserve(a, "a", {3, 5});
  const int64_t mark = planner.mark();
  planner.reserve(b, "b", {100});
  planner.rewind(mark);
  planner.reserve(c, "c", {7, 2}, DType::f64);
  planner.reserve(d, "d", {1});
  const Buffer arena = planner.commit("test", nullptr);
  for (const TensorView* v : {&a, &b, &c, &d})
    EXPECT_EQ(reinterpret_cast<uintptr_t>(v->data) % 64, 0u);
  EXPECT_EQ(b.data, c.data) << "after a rewind memory is shared";
  EXPECT_GE(static_cast<char*>(d.data), static_cast<char*>(c.data) + 7 * 2 * 8);
  EXPECT_EQ(c.dtype, DType::f64);
  EXPECT_EQ(planner.entries().size(), 4u);
  EXPECT_EQ(static_cast<int64_t>(arena.size()), planner.bytes());
  EXPECT_EQ(planner.bytes(), 64 + 448);
}

TEST(Planner, RefusesWhatNoMachineHas) {
  Planner planner({.rows = 3}, kernel_table(Isa::ref));
  TensorView v;
  EXPECT_THROW(planner.reserve(v, "huge", {int64_t{1} << 62}), Error);
  EXPECT_THROW(planner.reserve(v, "huge", {int64_t{1} << 40, int64_t{1} << 40}), Error);
}

// The example in the nanochat notebook, with a head width of 64.
TEST(RopeTable, KnownValues) {
  const ModelConfig c = test::make_config({"rope", "llama", R"({"n_embd": 64, "n_head": 1, "n_ctx": 128})"});
  const std::vector<double> f = rope_frequencies(rope_of(c));
  ASSERT_EQ(f.size(), 32u);
  EXPECT_NEAR(f[0], 1, 1e-12);
  EXPECT_NEAR(f[1], 0.749894, 5e-7);
  EXPECT_NEAR(f[2], 0.562341, 5e-7);
  EXPECT_NEAR(f[3], 0.421697, 5e-7);
  const RopeTable table(rope_of(c), 128, DType::f64);
  EXPECT_EQ(table.positions(), 128);
  EXPECT_EQ(table.cos.row<double>(0)[5], 1);
  EXPECT_EQ(table.sin.row<double>(0)[5], 0);
  EXPECT_NEAR(table.cos.row<double>(10)[1], std::cos(7.49894), 5e-6);
  EXPECT_NEAR(table.sin.row<double>(10)[3], std::sin(4.21697), 5e-6);
}

// The row of a position beyond the table is bit-identical to that of a larger table.
TEST(RopeTable, RowsOfAnyPosition) {
  ModelConfig c;
  c.head_dim = 16;
  c.rope_theta = 10000;
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const RopeDType rounded : {RopeDType{}, RopeDType::bf16}) {
      c.rope_dtype = rounded;
      const RopeTable large(rope_of(c), 1001, dtype);
      RopeTable small(rope_of(c), 4, dtype);
      small.set_row(2, 1000);
      const auto row_bytes = static_cast<size_t>(large.cos.cols()) * dtype_size(dtype);
      for (const auto& [found, expected] : {std::pair(small.cos, large.cos), {small.sin, large.sin}}) {
        const TensorView a = found.slice_rows(2, 1), b = expected.slice_rows(1000, 1);
        EXPECT_EQ(std::memcmp(a.data, b.data, row_bytes), 0);
        const TensorView next = found.slice_rows(3, 1), known = expected.slice_rows(3, 1);
        EXPECT_EQ(std::memcmp(next.data, known.data, row_bytes), 0);
      }
      EXPECT_EQ(RopeTable::bytes(rope_of(c), 4, dtype), static_cast<int64_t>(2 * 4 * row_bytes));
    }
  }
}

TEST(RopeTable, ScalingStretchesLongWaves) {
  const ModelConfig plain = test::make_config({"rope", "llama", R"({"n_embd": 64, "n_head": 1})"});
  ModelConfig linear = plain, llama3 = plain;
  linear.rope_scaling = {.type = RopeScaling::Type::linear, .factor = 4};
  llama3.rope_scaling = {.type = RopeScaling::Type::llama3,
                         .factor = 8,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_n_ctx = 256};
  const std::vector<double> f = rope_frequencies(rope_of(plain)), l = rope_frequencies(rope_of(linear)),
                            s = rope_frequencies(rope_of(llama3));
  int kept = 0, between = 0, stretched = 0;
  for (size_t i = 0; i < f.size(); ++i) {
    EXPECT_DOUBLE_EQ(l[i], f[i] / 4);
    const double wavelength = 2 * 3.14159265358979323846 / f[i];
    if (wavelength < 256 / 4.0) {
      EXPECT_DOUBLE_EQ(s[i], f[i]);
      ++kept;
    } else if (wavelength > 256) {
      EXPECT_DOUBLE_EQ(s[i], f[i] / 8);
      ++stretched;
    } else {
      EXPECT_LT(s[i], f[i]);
      EXPECT_GT(s[i], f[i] / 8);
      ++between;
    }
  }
  EXPECT_TRUE(kept && between && stretched);
}

}  // namespace
}  // namespace gpt
