#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"

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

class RowInvariance : public ::testing::TestWithParam<Isa> {};

TEST_P(RowInvariance, BitsOfARowDoNotDependOnTheOthers) {
  constexpr int64_t kMaxRows = 300;
  for (const Layer layer : {Layer{768, 100}, Layer{384, 33}, Layer{31, 257}, Layer{2600, 50}}) {
    const std::vector<float> x = random_values(kMaxRows * layer.in, 1);
    const std::vector<float> w = random_values(layer.out * layer.in + 1, 2);
    const std::vector<float> bias = random_values(layer.out, 3);
    const auto run = [&](int64_t first, int64_t rows, int threads) {
      std::vector<float> y(static_cast<size_t>(rows * layer.out));
      ThreadPool pool(threads);
      Workspace workspace(linear_scratch(rows, layer.out, layer.in, DType::f32), threads);
      const KernelTable& kernels = kernel_table(GetParam());
      kernels.linear_forward(ExecContext{pool, kernels, workspace.scratch()},
                             {.y = make_view(y.data(), {rows, layer.out}),
                              .x = make_view(x.data() + first * layer.in, {rows, layer.in}),
                              .w = make_view(w.data() + 1, {layer.out, layer.in}),  // 4-byte aligned only
                              .bias = make_view(bias.data(), {layer.out}),
                              .row_invariant = true});
      return y;
    };
    const std::vector<float> all = run(0, kMaxRows, 1);
    for (const int64_t rows : {1, 2, 3, 5, 12, 17, 48, 49, 64, 300}) {
      for (const int threads : {1, 2, 3, 7}) {
        const int64_t first = (kMaxRows - rows) / 2;
        const std::vector<float> part = run(first, rows, threads);
        EXPECT_EQ(std::memcmp(part.data(), all.data() + first * layer.out, part.size() * sizeof(float)), 0)
            << layer.in << " to " << layer.out << ", " << rows << " rows, " << threads << " threads";
      }
    }
  }
}

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kIsas) {
    if (isa <= best_isa()) isas.push_back(isa);
  }
  return isas;
}

INSTANTIATE_TEST_SUITE_P(Isas, RowInvariance, ::testing::ValuesIn(available_isas()),
                         [](const auto& info) { return std::string(isa_name(info.param)); });

}  // namespace
}  // namespace gpt
