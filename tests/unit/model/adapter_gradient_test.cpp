// Compares gradients of adapters on a frozen base model, in double, with finite differences of the loss of
// the whole model.

#include <gtest/gtest.h>

#include "grad/finite_difference.h"
#include "model/training_graph.h"
#include "support/adapted_model.h"
#include "support/backend.h"

namespace gpt::test {
namespace {

constexpr int64_t kBatch = 2, kTokens = 7;

class AdapterGradient : public testing::TestWithParam<std::tuple<const char*, bool, double>> {};

TEST_P(AdapterGradient, AgreesWithFiniteDifferences) {
  const auto& [name, all, dropout] = GetParam();
  const RandomModel base(make_config(small_config(name)), DType::f64);
  const std::vector<Role> some = {Role::q_weight, Role::v_weight, Role::down_proj_weight};
  const RandomAdaptedModel a(base.model, DType::f64, 2, all ? all_matrices() : some, all, dropout);
  const ParamBuffer grads(a.model.table, DType::f64, "test gradients", device());
  ThreadPool pool(1);
  TrainingGraph graph(a.model, kBatch, kTokens, {.dtype = DType::f64, .adapter = &a.adapter},
                      backend(pool, Isa::ref));
  const std::vector<int32_t> ids = random_ids(kBatch * kTokens, base.model.config.vocab_size, 5),
                             targets = random_targets(kBatch * kTokens, base.model.config.vocab_size, 6);
  const auto run = [&](bool accumulate) {
    StepState step{.loss_weight = 0.1};
    DeviceArray<StepState> state(device());
    graph.forward_backward({.ids = ids.data(), .targets = targets.data()}, grads, accumulate,
                           state.share({&step, 1}));
    state.download({&step, 1});
    return step.loss * 0.1;
  };
  run(false);
  std::vector<Variable> variables;
  for (int id = 0; id < a.model.table.count(); ++id) {
    ASSERT_EQ(bool(grads[id]), id >= a.model.table.model_count());
    if (grads[id]) variables.push_back({a.model.table[id].name, a.weights[id], copy_values(grads[id])});
  }
  const std::vector<double> once = copy_values(grads.all());
  run(true);
  const std::vector<double> twice = copy_values(grads.all());
  for (size_t i = 0; i < once.size(); ++i)
    ASSERT_NEAR(twice[i], 2 * once[i], 1e-12);
  GradientCheck([&] { return run(false); }, 1).run(variables, 8);
}

std::string case_name(const testing::TestParamInfo<AdapterGradient::ParamType>& info) {
  const auto& [name, all, dropout] = info.param;
  return test_name(name) + (all ? "_all" : "_some") + (dropout > 0 ? "_dropout" : "");
}
INSTANTIATE_TEST_SUITE_P(All, AdapterGradient,
                         testing::Combine(testing::Values("gpt2", "llama", "nanochat_gqa", "openai-gpt",
                                                          "toy_shared_kv"),
                                          testing::Bool(), testing::Values(0, 0.3)),
                         case_name);

}  // namespace
}  // namespace gpt::test
