#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/backend.h"
#include "support/names.h"
#include "support/small_models.h"

namespace gpt {
namespace {

ModelConfig small_config() {
  return test::make_config({.name = "small", .family = "gpt2", .keys = R"({"n_layer": 2, "n_embd": 80})"});
}

// Fills in values of different magnitude, so that a different order of summation changes the result.
void fill(const ParamTable& table, const ParamBuffer& buffer) {
  for (int id = 0; id < table.count(); ++id) {
    const MappedView access(buffer[id], Access::write);
    for (int64_t i = 0; i < buffer[id].size(); ++i)
      access->as<float>()[i] = std::sin(static_cast<float>(i + 7 * id)) * static_cast<float>(1 + id % 5);
  }
}

class OptimizerTest : public ::testing::Test {
 protected:
  // Returns the gradient norm that a training step computes.
  double norm(int threads) {
    ThreadPool pool(threads);
    const Backend b = test::backend(pool, best_isa());
    const ExecContext ctx = b.context();
    const auto blocks = (grads_.all().size() + kSumBlock - 1) / kSumBlock;
    const Buffer buffer(static_cast<size_t>(blocks) * sizeof(double), "sums", b.device.get());
    const auto sums = device_span<double>(buffer.view(0, DType::f64, Shape{blocks}));
    StepState step;
    DeviceArray<StepState> state(b.device.get());
    ctx.kernels.sum_squares(ctx, {.x = grads_.all(), .block_sums = sums});
    ctx.kernels.finalize_grad_norm(ctx, {.block_sums = sums, .step = state.share({&step, 1})});
    state.download({&step, 1});
    return step.norm;
  }

  ParamTable table_{small_config()};
  const ParamBuffer weights_{table_, DType::f32, "weights", test::device()};
  const ParamBuffer grads_{table_, DType::f32, "gradients", test::device()};
};

TEST_F(OptimizerTest, TheNormIsThatOfAllParameters) {
  fill(table_, grads_);
  double sum = 0;
  for (const TensorView& g : grads_.views()) {
    for (const float x : test::floats(g))
      sum += double{x} * x;
  }
  EXPECT_NEAR(norm(1), std::sqrt(sum), 1e-9 * std::sqrt(sum));
  for (int threads : {2, 3, 7})
    EXPECT_EQ(norm(threads), norm(1)) << threads << " threads";
}

// Without gradients, only weight decay changes parameters, and only those that it applies to.
TEST_F(OptimizerTest, DecaysMatricesAndNothingElse) {
  for (const TensorView& w : weights_.views())
    std::fill_n(MappedView(w, Access::write)->as<float>(), w.size(), 2.0f);
  ThreadPool pool(3);
  const auto optimizer = make_adamw(table_, {.weight_decay = 0.1});
  const OptimizerState state(optimizer->buffers(), table_, DType::f32, test::device());
  StepState step{.lr = 0.01, .grad_scale = 1, .updates = 1};
  DeviceArray<StepState> shared(test::device());
  optimizer->bind(state.slices(weights_, grads_), state);
  optimizer->update(test::backend(pool, best_isa()).context(), shared.share({&step, 1}));
  for (int id = 0; id < table_.count(); ++id) {
    const float want = table_[id].decay ? 2.0f * (1 - 0.01f * 0.1f) : 2.0f;
    for (const float x : test::floats(weights_[id]))
      ASSERT_NEAR(x, want, 1e-6f) << table_[id].name;
  }
}

TEST_F(OptimizerTest, KeepsWhatItSaysOfWhatIsTrained) {
  for (int id = 3; id < table_.count(); ++id)
    table_.set_trainable(id, false);
  const std::vector<OptimizerBuffer> buffers = {{"m"}, {"count", {2, 3}}};
  const OptimizerState state(buffers, table_, DType::f32, test::device());
  std::vector<std::string> names;
  int64_t elements = 0;
  for (const OptimizerState::Part& part : state.parts()) {
    names.push_back(part.name);
    elements += part.view.size();
  }
  const auto of = [&](int id) { return "m." + table_[id].name; };
  EXPECT_EQ(names, (std::vector<std::string>{"count", of(0), of(1), of(2)}));
  EXPECT_EQ(elements, 6 + table_[0].size() + table_[1].size() + table_[2].size());
  EXPECT_EQ(OptimizerState::bytes(buffers, table_, DType::f32),
            4 * (6 + static_cast<int64_t>(state[0].size())));
}

TEST(OptimizerTypes, UnknownOnesAreNamed) {
  EXPECT_EQ(require_optimizer("adamw").name, "adamw");
  EXPECT_ERROR(require_optimizer("adam"), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpt
