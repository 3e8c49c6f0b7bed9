#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "support/arrays.h"
#include "support/isas.h"
#include "support/random.h"
#include "tensor/half.h"

// Tests row-invariant linear layers. A row has bit-identical results alone and in any batch, for any number
// of threads and at any memory address.

namespace gpt {
namespace {

struct Layer {
  int64_t in, out;
};

std::vector<float> random_values(int64_t n, uint64_t seed) {
  RandomStream random(seed, RandomSite::test);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values)
    v = static_cast<float>(test::bell(random));
  return values;
}

struct Kind {
  Isa isa;
  DType compute;
};
void PrintTo(const Kind& k, std::ostream* out) {
  *out << isa_name(k.isa) << " in " << dtype_name(k.compute);
}
class RowInvariance : public ::testing::TestWithParam<Kind> {};

TEST_P(RowInvariance, BitsOfARowDoNotDependOnTheOthers) {
  constexpr int64_t kMaxRows = 300;
  for (const Layer layer : {Layer{768, 100}, Layer{384, 33}, Layer{31, 257}, Layer{2600, 50}}) {
    const std::vector<float> x = random_values(kMaxRows * layer.in, 1);
    const std::vector<float> w = random_values(layer.out * layer.in + 1, 2);
    const std::vector<float> bias = random_values(layer.out, 3);
    const Kind kind = GetParam();
    const KernelTable& kernels = kernel_table(kind.isa);
    const auto make_context = [&](ThreadPool& pool, const Workspace& workspace) {
      return ExecContext{test::host(), pool, kernels, workspace.scratch()};
    };
    // fp32 weights are not packed and only 4-byte aligned.
    TensorView plain = make_view(w.data() + 1, {layer.out, layer.in});
    PackedMatrix packed{.dtype = kind.compute, .out = layer.out, .in = layer.in};
    Buffer memory;
    if (kind.compute != DType::f32) {
      const int64_t bytes = kernels.packed_bytes(kind.compute, layer.out, layer.in, false);
      memory = Buffer(static_cast<size_t>(bytes), "a packed matrix");
      packed.data = memory.data();
      ThreadPool pool(1);
      kernels.pack_matrix(make_context(pool, {}), {.dst = packed, .parts = {&plain, 1}});
    }
    const auto run = [&](int64_t first, int64_t rows, int threads) {
      std::vector<float> y(static_cast<size_t>(rows * layer.out));
      ThreadPool pool(threads);
      const Workspace workspace(kernels.linear_scratch(rows, layer.out, layer.in, kind.compute, false),
                                threads);
      kernels.linear_forward(make_context(pool, workspace),
                             {.y = make_view(y.data(), {rows, layer.out}),
                              .x = make_view(x.data() + first * layer.in, {rows, layer.in}),
                              .w = packed.data ? TensorView{} : plain,
                              .bias = make_view(bias.data(), {layer.out}),
                              .row_invariant = true,
                              .packed = packed});
      return y;
    };
    const std::vector<float> all = run(0, kMaxRows, 1);
    for (const int64_t rows : {1, 2, 3, 5, 7, 12, 16, 17, 49, 100, 300}) {
      for (const int threads : {1, 2, 3, 7}) {
        const int64_t first = (kMaxRows - rows) / 2;
        const std::vector<float> part = run(first, rows, threads);
        EXPECT_EQ(std::memcmp(part.data(), all.data() + first * layer.out, part.size() * sizeof(float)), 0)
            << layer.in << " to " << layer.out << ", " << rows << " rows, " << threads << " threads";
      }
    }
  }
}

// A matrix whose values are exact in fp32, bf16 and fp16, stored both row-major and column-major.
struct Forms {
  std::vector<float> rows, columns;
  std::vector<bf16> bf16_rows, bf16_columns;
  std::vector<f16> f16_rows, f16_columns;
  Layer layer;

  explicit Forms(const Layer& l) : rows(random_values(l.out * l.in, 2)), layer(l) {
    for (float& x : rows)
      x = std::clamp(std::round(x * 32) / 32, -4.0f, 4.0f);
    for (int64_t i = 0; i < l.out * l.in; ++i)
      columns.push_back(rows[static_cast<size_t>(i % l.out * l.in + i / l.out)]);
    std::transform(rows.begin(), rows.end(), std::back_inserter(bf16_rows), to_bf16);
    std::transform(columns.begin(), columns.end(), std::back_inserter(bf16_columns), to_bf16);
    std::transform(rows.begin(), rows.end(), std::back_inserter(f16_rows), to_f16);
    std::transform(columns.begin(), columns.end(), std::back_inserter(f16_columns), to_f16);
  }
  template <class T>
  TensorView view(const std::vector<T>& numbers, bool transposed) const {
    TensorView v = make_view(numbers.data(), {layer.out, layer.in});
    v.transposed = transposed;
    if (transposed) v.ld = layer.out;
    return v;
  }
  std::vector<TensorView> all() const {
    return {view(rows, false),   view(bf16_rows, false),   view(f16_rows, false),
            view(columns, true), view(bf16_columns, true), view(f16_columns, true)};
  }
};

TEST_P(RowInvariance, AllFormsOfAMatrixGiveTheSameBits) {
  const Kind kind = GetParam();
  const KernelTable& kernels = kernel_table(kind.isa);
  ThreadPool pool(2);
  for (const Layer layer : {Layer{768, 100}, Layer{384, 33}, Layer{31, 257}, Layer{1100, 140}}) {
    const Forms forms(layer);
    const int64_t bytes = kernels.packed_bytes(kind.compute, layer.out, layer.in, false);
    const Buffer memory(static_cast<size_t>(bytes), "a packed matrix");
    PackedMatrix packed{memory.data(), kind.compute, layer.out, layer.in};
    for (const int64_t rows : {1, 2, 3, 4, 7, 8, 13, 17}) {
      const std::vector<float> x = random_values(rows * layer.in, 1);
      const Workspace workspace(kernels.linear_scratch(rows, layer.out, layer.in, kind.compute, false), 2);
      const ExecContext ctx{test::host(), pool, kernels, workspace.scratch()};
      std::vector<float> expected;
      const auto compare = [&](const TensorView& w, const PackedMatrix& matrix) {
        std::vector<float> y(static_cast<size_t>(rows * layer.out));
        kernels.linear_forward(ctx, {.y = make_view(y.data(), {rows, layer.out}),
                                     .x = make_view(x.data(), {rows, layer.in}),
                                     .w = w,
                                     .packed = matrix,
                                     .compute = kind.compute});
        if (expected.empty()) expected = y;
        EXPECT_EQ(y, expected) << layer.in << " to " << layer.out << ", " << rows << " rows, "
                               << (matrix ? "packed" : dtype_name(w.dtype))
                               << (w.transposed ? " transposed" : "");
      };
      for (const TensorView& w : forms.all()) {
        compare(w, {});
        if (bytes == 0) continue;  // the reference has no packed form of its own dtype
        kernels.pack_matrix(ctx, {.dst = packed, .parts = {&w, 1}});
        compare(TensorView{}, packed);
      }
    }
  }
}

std::vector<Kind> available_kinds() {
  std::vector<Kind> kinds;
  for (const Isa isa : available_isas()) {
    for (const DType compute : {DType::f32, DType::bf16, DType::f16}) {
      kinds.push_back({isa, compute});
    }
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Kinds, RowInvariance, ::testing::ValuesIn(available_kinds()), [](const auto& info) {
  return std::string(isa_name(info.param.isa)) + "_" + std::string(dtype_name(info.param.compute));
});

}  // namespace
}  // namespace gpt
