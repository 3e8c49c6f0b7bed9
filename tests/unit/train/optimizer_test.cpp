#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/small_models.h"

namespace gpt {
namespace {

ModelConfig small_config() {
  return test::make_config({.name = "small", .family = "gpt2", .keys = R"({"n_layer": 2, "n_embd": 80})"});
}

// Values that differ in size, so that another order of summation would show.
void fill(const ParamTable& table, const ParamBuffer& buffer) {
  for (int id = 0; id < table.count(); ++id) {
    for (int64_t i = 0; i < buffer[id].size(); ++i)
      buffer[id].as<float>()[i] = std::sin(static_cast<float>(i + 7 * id)) * static_cast<float>(1 + id % 5);
  }
}

class OptimizerTest : public ::testing::Test {
 protected:
  GradientNorms norms(int threads) {
    ThreadPool pool(threads);
    return optimizer_.norms({pool, kernel_table(best_isa()), {}}, grads_);
  }

  const ParamTable table_{small_config()};
  const ParamBuffer weights_{table_, DType::f32, "weights"};
  const ParamBuffer grads_{table_, DType::f32, "gradients"};
  Optimizer optimizer_{table_, {.weight_decay = 0.1}, DType::f32};
};

TEST_F(OptimizerTest, TheNormIsThatOfAllParameters) {
  fill(table_, grads_);
  double sum = 0;
  for (const TensorView& g : grads_.views()) {
    for (int64_t i = 0; i < g.size(); ++i)
      sum += double{g.as<float>()[i]} * g.as<float>()[i];
  }
  EXPECT_NEAR(norms(1).total, std::sqrt(sum), 1e-9 * std::sqrt(sum));
  EXPECT_EQ(norms(1).first_bad, -1);
  for (int threads : {2, 3, 7})
    EXPECT_EQ(norms(threads).total, norms(1).total) << threads << " threads";
}

TEST_F(OptimizerTest, NamesTheFirstParameterWithABadGradient) {
  for (int id : {table_.count() - 1, 5, 0}) {
    const TensorView& g = grads_[id];
    g.as<float>()[g.size() - 1] =
        id == 5 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    EXPECT_EQ(norms(2).first_bad, id);
    EXPECT_FALSE(std::isfinite(norms(2).total));
  }
}

// Without a gradient only weight decay moves a parameter, where it applies.
TEST_F(OptimizerTest, DecaysMatricesAndNothingElse) {
  for (const TensorView& w : weights_.views())
    std::fill_n(w.as<float>(), w.size(), 2.0f);
  ThreadPool pool(3);
  optimizer_.update({pool, kernel_table(best_isa()), {}}, weights_, grads_, {.lr = 0.01}, 1);
  for (int id = 0; id < table_.count(); ++id) {
    const float want = table_[id].decay ? 2.0f * (1 - 0.01f * 0.1f) : 2.0f;
    for (int64_t i = 0; i < weights_[id].size(); ++i)
      ASSERT_NEAR(weights_[id].as<float>()[i], want, 1e-6f) << table_[id].name << " element " << i;
  }
}

}  // namespace
}  // namespace gpt
