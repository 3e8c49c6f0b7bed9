#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "support/isas.h"

// A row of a row-invariant linear layer has the same bits alone and among any others, for any number of
// threads and wherever it lies in memory.

namespace gpt {
namespace {

struct Layer {
  int64_t in, out;
};

std::vector<float> random_values(int64_t n, uint64_t seed) {
  RandomStream random(seed, RandomSite::test);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values)
    v = static_cast<float>(random.normal());
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
      return ExecContext{pool, kernels, workspace.scratch()};
    };
    // fp32 weights are taken plain, and but 4-byte aligned.
    TensorView plain = make_view(w.data() + 1, {layer.out, layer.in});
    PackedMatrix packed{.dtype = kind.compute, .out = layer.out, .in = layer.in};
    Buffer memory;
    if (kind.compute != DType::f32) {
      const int64_t bytes = packed_bytes(kind.isa, kind.compute, layer.out, layer.in, false);
      memory = Buffer(static_cast<size_t>(bytes), "a packed matrix");
      packed.data = memory.data();
      ThreadPool pool(1);
      kernels.pack_matrix(make_context(pool, {}), {.dst = &packed, .parts = {&plain, 1}});
    }
    const auto run = [&](int64_t first, int64_t rows, int threads) {
      std::vector<float> y(static_cast<size_t>(rows * layer.out));
      ThreadPool pool(threads);
      const Workspace workspace(linear_scratch(rows, layer.out, layer.in, kind.compute), threads);
      kernels.linear_forward(make_context(pool, workspace),
                             {.y = make_view(y.data(), {rows, layer.out}),
                              .x = make_view(x.data() + first * layer.in, {rows, layer.in}),
                              .w = packed.data ? TensorView{} : plain,
                              .bias = make_view(bias.data(), {layer.out}),
                              .row_invariant = true,
                              .packed = packed.data ? &packed : nullptr});
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
