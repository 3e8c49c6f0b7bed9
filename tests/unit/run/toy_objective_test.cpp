// Defines an optimizer and an objective that the program does not know, in one file. A run with both is
// stopped and resumed, with bit-identical results.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/safetensors.h"
#include "kernels/unwrap.h"
#include "model/model_files.h"
#include "run/trainer.h"
#include "support/backend.h"
#include "support/names.h"
#include "support/temp_dir.h"
#include "train/optimizer.h"

namespace gpt::test {
namespace {

// Copies the state of a step to the host.
StepState host_copy(DeviceSpan<const StepState> shared) {
  const TensorView bytes =
      make_view(const_cast<StepState*>(unwrap(shared)), DType::i8, {int64_t{sizeof(StepState)}}, device());
  StepState step;
  std::memcpy(&step, MappedView(bytes, Access::read)->data, sizeof step);
  return step;
}

// p -= lr sign(m), m = 0.9 m + 0.1 g (Lion without its second decay), and a counter buffer of a different
// shape.
class SignMomentum : public Optimizer {
 public:
  explicit SignMomentum(const ParamTable& table) : table_(table) {}
  std::vector<OptimizerBuffer> buffers() const override { return {{"momentum"}, {"calls", {1}}}; }
  void bind(std::vector<ParamSlice> slices, const OptimizerState& state) override {
    slices_ = std::move(slices);
    calls_ = state[1];
  }
  void update(const ExecContext&, DeviceSpan<const StepState> shared) const override {
    const StepState step = host_copy(shared);
    if (step.grad_scale == 0) return;
    MappedView(calls_, Access::read_write)->as<float>()[0] += 1;
    for (const ParamSlice& slice : slices_)
      update(slice, step);
  }
  std::vector<UpdateSquares> last_update(const ExecContext&,
                                         DeviceSpan<const StepState> shared) const override {
    const double lr = host_copy(shared).lr;
    return std::vector<UpdateSquares>(static_cast<size_t>(table_.count()), {lr * lr, 1});
  }
  std::string describe() const override { return "sign of the momentum"; }

 private:
  static void update(const ParamSlice& slice, const StepState& step) {
    const MappedView w(slice.weight, Access::read_write), moments(slice.state[0], Access::read_write),
        gradients(slice.grad, Access::read);
    float *p = w->as<float>(), *m = moments->as<float>();
    const float* g = gradients->as<float>();
    for (int64_t i = 0; i < w->size(); ++i) {
      m[i] = 0.9f * m[i] + 0.1f * static_cast<float>(step.grad_scale) * g[i];
      if (m[i] != 0) p[i] -= static_cast<float>(step.lr) * std::copysign(1.0f, m[i]);
    }
  }

  const ParamTable& table_;
  std::vector<ParamSlice> slices_;
  TensorView calls_;
};

// The first sample of each pair should get the higher score. The score is the mean over its tokens of hidden
// . v, where v is a parameter. The loss of a pair is log(1 + exp(s2 - s1)).
class PreferFirst : public Objective {
 public:
  int64_t group() const override { return 2; }
  bool uses_head() const override { return false; }
  std::vector<ParamSpec> parameters(const ModelConfig& c) const override {
    return {{.name = "objective.score",
             .role = Role::objective,
             .layer = -1,
             .shape = {c.n_embd},
             .init = {InitRule::Kind::normal, 0.02},
             .decay = false,
             .contiguous_with_previous = false,
             .component = Component::objective}};
  }
  void plan(Planner&, const ModelConfig&, std::deque<TensorView>&) const override {}
  double weight(const TrainBatch&, int64_t rows) const override {
    return static_cast<double>(rows) / (2 * kTokens);
  }

  void run(const ObjectiveCall& call) const override {
    const bool backward = call.backward != nullptr;
    const MappedView v(call.pass.weight(call.first_param), Access::read), x(call.hidden, Access::read),
        losses(call.losses, Access::write);
    const MappedView dv(backward ? call.backward->grad(call.first_param) : TensorView{}, Access::read_write),
        dx(backward ? call.dhidden : TensorView{}, Access::write);
    const int64_t width = x->cols();
    if (backward && !call.backward->accumulate) std::fill_n(dv->as<float>(), width, 0.0f);
    const StepState step = backward ? host_copy(call.step) : StepState{};
    for (int64_t row = 0; row < x->rows(); row += 2 * kTokens) {
      const double margin = score(*x, *v, row) - score(*x, *v, row + kTokens);
      std::fill_n(losses->as<double>() + row, 2 * kTokens, 0.0);
      losses->as<double>()[row] = std::log1p(std::exp(-margin));
      // The derivative of the loss with respect to the score of a token of the first sample.
      const double slope = -step.loss_scale * step.loss_weight / (1 + std::exp(margin)) / kTokens;
      for (int64_t t = 0; backward && t < 2 * kTokens; ++t) {
        const auto s = static_cast<float>(t < kTokens ? slope : -slope);
        for (int64_t i = 0; i < width; ++i) {
          dv->as<float>()[i] += s * x->row<float>(row + t)[i];
          dx->row<float>(row + t)[i] = s * v->as<float>()[i];
        }
      }
    }
  }

  static constexpr int64_t kTokens = 16;

 private:
  static double score(const TensorView& x, const TensorView& v, int64_t row) {
    double sum = 0;
    for (int64_t t = row; t < row + kTokens; ++t) {
      for (int64_t i = 0; i < v.size(); ++i)
        sum += double{x.row<float>(t)[i]} * v.as<float>()[i];
    }
    return sum / kTokens;
  }
};

class ToyRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    optimizer_types().push_back(
        {"sign", [](const ParamTable& table, const OptimizerSettings&) -> std::unique_ptr<Optimizer> {
           return std::make_unique<SignMomentum>(table);
         }});
  }
  static void TearDownTestSuite() { optimizer_types().pop_back(); }

  TrainRequest request(const std::string& name, int64_t stop_after, int64_t micro_batch = 2,
                       bool tied = true) {
    Settings settings;
    settings.add_preset("tiny");
    settings.add_json(nlohmann::json::parse(R"({
      "n_layer": 1, "n_embd": 16, "n_head": 2, "n_kv_head": 2, "d_ff": 32, "data": ["tales:20000"],
      "steps": 12, "warmup": 0, "lr": 1e-3, "optimizer": "sign", "batch_size": 4, "eval_every": 6,
      "eval_batches": 2, "sample_every": 0, "threads": 1})"),
                      "test");
    settings.add_json({{"n_ctx", PreferFirst::kTokens},
                       {"micro_batch", micro_batch},
                       {"stop_after", stop_after},
                       {"tie_embeddings", tied}},
                      "test");
    TrainRequest request;
    request.config = settings.resolve();
    request.out = dir_.file(name);
    std::filesystem::create_directories(request.out);
    request.objective = &objective_;
    request.kernels = &kernels(best_isa());
    request.device = shared_device();
    request.brief = true;
    return request;
  }
  std::string bytes(const std::string& path) const { return read_file(dir_.file(path)); }

  TempDir dir_;
  PreferFirst objective_;
};

TEST_F(ToyRun, StopsAndResumesToTheSameBits) {
  for (const bool tied : {true, false}) {
    SCOPED_TRACE(tied);
    const std::string whole = tied ? "whole" : "whole_untied", parts = tied ? "parts" : "parts_untied";
    run_training(request(whole, 0, 2, tied), {});
    run_training(request(parts, 5, 2, tied), {});
    TrainRequest rest = request(parts, 0, 2, tied);
    rest.resume = true;
    run_training(rest, {});
    for (const std::string file : {"model.safetensors", "objective.safetensors", "train_state.safetensors"})
      EXPECT_TRUE(bytes(whole + "/last/" + file) == bytes(parts + "/last/" + file)) << file;
  }
  const SafetensorsFile own(dir_.file("whole/last/objective.safetensors")),
      state(dir_.file("whole/last/train_state.safetensors"));
  ASSERT_NE(own.find("objective.score"), nullptr);
  EXPECT_NE(state.find("momentum.objective.score"), nullptr);
  EXPECT_NE(state.find("calls"), nullptr);
  EXPECT_EQ(state.find("m.objective.score"), nullptr);
  EXPECT_NO_THROW(LoadedModel(dir_.file("whole/last"))) << "the model's own files are as ever";
}

TEST_F(ToyRun, PairsAreNeverSplit) {
  EXPECT_ERROR(run_training(request("split", 0, 1), {}), ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace gpt::test
