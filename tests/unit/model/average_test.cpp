#include <gtest/gtest.h>

#include "model/model_files.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

TEST(Average, IsTheMeanOfEveryWeight) {
  const ModelConfig config = make_config({"gpt2", "gpt2", "{}"});
  const RandomModel a(config, DType::f32, 1), b(config, DType::f32, 2);
  TempDir first, second;
  write_model(first.path(), a.model, a.model.weights);
  write_model(second.path(), b.model, b.model.weights);
  LoadedModel mean(first.path(), DType::f32, MatrixOrder::rows, {}, device());
  std::vector<std::unique_ptr<LoadedModel>> others;
  others.push_back(
      std::make_unique<LoadedModel>(second.path(), DType::f32, MatrixOrder::rows, ShapeHints{}, device()));
  mean.average(others);
  for (int id = 0; id < a.model.table.count(); ++id) {
    const TensorView& found = mean.model().weights[static_cast<size_t>(id)];
    for (int64_t row = 0; row < found.rows(); ++row) {
      for (int64_t col = 0; col < found.cols(); ++col) {
        const double expected = (get(a.weights[id], row, col) + get(b.weights[id], row, col)) / 2;
        EXPECT_EQ(get(found, row, col), static_cast<float>(expected)) << a.model.table[id].name;
      }
    }
  }
}

}  // namespace
}  // namespace gpt::test
