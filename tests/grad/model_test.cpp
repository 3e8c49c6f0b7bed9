// Tests the gradients of whole models. Compares TrainingGraph in double with finite differences of its loss,
// for every family and every config option. Also compares recomputation and micro-batches with a single plain
// pass.

#include <gtest/gtest.h>

#include <set>

#include "grad/finite_difference.h"
#include "model/training_graph.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

constexpr int64_t kTokens = 9;
constexpr double kScale = 0.1;
constexpr StepState kStep = {.step = 5, .seed = 7, .loss_weight = kScale};

// A model, a batch, and the gradients that a training graph computes for them.
class Trainee {
 public:
  Trainee(const ModelConfig& c, int64_t batch, DType dtype, Isa isa)
      : random(c, dtype),
        grads(random.model.table, dtype, "test gradients", device()),
        batch_(batch),
        dtype_(dtype),
        isa_(isa),
        ids_(random_ids(batch * kTokens, c.vocab_size, 5)),
        targets_(random_targets(batch * kTokens, c.vocab_size, 6)) {}

  RandomModel random;
  ParamBuffer grads;

  // Runs all samples in micro-batches of the given size.
  double run(int64_t micro_batch, bool recompute) {
    TrainingGraph graph(random.model, micro_batch, kTokens, {.recompute = recompute, .dtype = dtype_},
                        backend());
    return run(graph);
  }
  double run(TrainingGraph& graph) {
    StepState step = kStep;
    DeviceArray<StepState> state(device());
    const DeviceSpan<StepState> shared = state.share({&step, 1});
    for (int64_t sample = 0; sample < batch_; sample += graph.batch_size()) {
      const TrainBatch part{.ids = ids_.data() + sample * kTokens,
                            .targets = targets_.data() + sample * kTokens,
                            .first_sample = sample};
      graph.forward_backward(part, grads, sample > 0, shared);
    }
    state.download({&step, 1});
    return step.loss * kScale;
  }
  double loss_only() {
    TrainingGraph graph(random.model, batch_, kTokens, {.gradients = false, .dtype = dtype_}, backend());
    return graph.loss({.ids = ids_.data(), .targets = targets_.data()}) * kScale;
  }
  Backend backend() { return test::backend(pool_, isa_); }
  std::vector<Variable> variables() const {
    std::vector<Variable> all;
    for (int id = 0; id < random.model.table.count(); ++id) {
      all.push_back({random.model.table[id].name, random.weights[id], copy_values(grads[id])});
    }
    return all;
  }

 private:
  int64_t batch_;
  DType dtype_;
  Isa isa_;
  std::vector<int32_t> ids_, targets_;
  ThreadPool pool_{1};  // single-threaded: slow on busy machines otherwise, and threads have separate tests
};

class ModelGradient : public testing::TestWithParam<SmallConfig> {};

TEST_P(ModelGradient, AgreesWithFiniteDifferences) {
  const ModelConfig c = make_config(GetParam());
  Trainee t(c, 2, DType::f64, Isa::ref);
  TrainingGraph graph(t.random.model, 2, kTokens, {.dtype = DType::f64}, t.backend());
  t.run(graph);
  GradientCheck([&] { return t.run(graph); }, 1).run(t.variables(), 6);
}

TEST_P(ModelGradient, LossAloneIsTheSameWithoutDropout) {
  const ModelConfig c = make_config(GetParam());
  if (c.dropout > 0) GTEST_SKIP() << "this case has dropout";
  Trainee t(c, 2, DType::f64, Isa::ref);
  EXPECT_DOUBLE_EQ(t.loss_only(), t.run(2, false));
}

TEST_P(ModelGradient, RecomputationGivesTheSameBits) {
  const ModelConfig c = make_config(GetParam());
  for (Isa isa : available_isas()) {
    Trainee plain(c, 3, DType::f32, isa), recomputed(c, 3, DType::f32, isa);
    EXPECT_EQ(plain.run(3, false), recomputed.run(3, true)) << isa_name(isa);
    for (int id = 0; id < plain.random.model.table.count(); ++id) {
      EXPECT_TRUE(same_bytes(plain.grads[id], recomputed.grads[id]))
          << isa_name(isa) << " " << plain.random.model.table[id].name;
    }
  }
}

// In double, the sums differ only by rounding. Dropout does not matter, because the masks depend on the
// sample and not on the micro-batch.
TEST_P(ModelGradient, MicroBatchesAddUpToTheBatch) {
  const ModelConfig c = make_config(GetParam());
  for (int64_t micro_batch : {1, 2}) {
    Trainee whole(c, 4, DType::f64, Isa::ref), parts(c, 4, DType::f64, Isa::ref);
    EXPECT_NEAR(whole.run(4, false), parts.run(micro_batch, micro_batch == 1), 1e-12);
    for (int id = 0; id < whole.random.model.table.count(); ++id) {
      const std::vector<double> a = copy_values(whole.grads[id]), b = copy_values(parts.grads[id]);
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], 1e-12 * (1 + std::abs(a[i])))
            << whole.random.model.table[id].name << " " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ModelGradient, testing::ValuesIn(all_configs()),
                         [](const auto& param) { return test_name(param.param.name); });

// Returns the values of a key in all configs, as JSON text.
std::set<std::string> values_of(const std::string& key) {
  std::set<std::string> values;
  for (const SmallConfig& c : small_configs())
    values.insert(model_keys_json(make_config(c))[key].dump());
  return values;
}

// Checks that every value of every enumeration and of every bool option occurs in a config.
TEST(ModelGradientRegistry, EverySwitchTakesEveryValue) {
  ModelConfig config;
  visit_model_keys(config, [&](const Key& key, auto& field) {
    const std::string g = key.group, name = key.name;
    if (g == "shape" || g == "init") return;
    using T = std::remove_reference_t<decltype(field)>;
    const std::set<std::string> found = values_of(name);
    if constexpr (std::is_enum_v<T>) {
      // Counts the values that the JSON key accepts, by trying the names of all enumerations.
      size_t count = 0;
      for (const char* value : {"layer", "rms", "pre", "post", "learned", "rope", "halves", "interleaved",
                                "fp32", "bf16", "gelu_tanh", "gelu", "relu", "relu2", "swiglu"}) {
        ModelConfig other;
        try {
          read_model_keys({{name, value}}, other);
        } catch (const Error&) {
          continue;
        }
        ++count;
        EXPECT_TRUE(found.count('"' + std::string(value) + '"'))
            << name << " = " << value << " is in no small config";
      }
      EXPECT_GE(count, 2u) << name << ": list its values here";
    } else if (std::string(name) == "rope_scaling") {
      EXPECT_GE(found.size(), 3u) << "none, linear, llama3";
    } else {
      EXPECT_GE(found.size(), 2u) << name << " has one value in all small configs";
    }
  });
}

}  // namespace
}  // namespace gpt::test
