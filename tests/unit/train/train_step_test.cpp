#include "train/train_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "model/weight_source.h"
#include "support/backend.h"
#include "support/names.h"
#include "support/small_models.h"
#include "support/team.h"
#include "tensor/element.h"
#include "train/part_norms.h"

namespace gpt::test {
namespace {

constexpr int64_t kBatch = 4, kTokens = 8;

class TrainStepTest : public ::testing::Test {
 protected:
  TrainStepTest()
      : random_(make_config({.name = "small", .family = "gpt2", .keys = R"({"n_layer": 2})"}), DType::f32) {}

  const Model& model() const { return random_.model; }
  TrainStep make(int64_t micro_batch, TrainStep::Options options = {}) {
    options.batch_size = kBatch;
    options.micro_batch = micro_batch;
    options.n_ctx = kTokens;
    return TrainStep(model(), random_.weights, make_adamw(model().table, {}), backend(pool_, best_isa()),
                     options);
  }
  TrainStep::FillBatch fill() {
    return [this](int64_t first, int64_t rows, const TrainStep::Samples& samples) {
      const std::vector<int32_t> all = random_ids(kBatch * kTokens + 1, model().config.vocab_size, 3);
      std::copy_n(all.begin() + first * kTokens, rows * kTokens, samples.ids);
      std::copy_n(all.begin() + first * kTokens + 1, rows * kTokens, samples.targets);
    };
  }

  ThreadPool pool_{2};
  RandomModel random_;
};

TEST_F(TrainStepTest, LossFallsAndUpdatesAreCounted) {
  TrainStep step = make(kBatch, {.clip_norm = 1});
  StepInputs start{.lr = 1e-2};
  double first = 0;
  for (; start.step < 20; ++start.step) {
    step.compute_gradients(start, fill());
    if (start.step == 0) first = step.state().loss;
    step.update();
  }
  EXPECT_EQ(step.state().updates, 20);
  EXPECT_LT(step.state().loss, 0.8 * first);
}

// Trains a model whose layers differ. Checks that the given parameters change.
void train_toy(const SmallConfig& toy, std::initializer_list<std::pair<Role, int64_t>> changed) {
  ThreadPool pool(2);
  RandomModel random(make_config(toy), DType::f32);
  const ParamTable& table = random.model.table;
  TrainStep step(random.model, random.weights, make_adamw(table, {}), backend(pool, best_isa()),
                 {.batch_size = kBatch, .micro_batch = 2, .n_ctx = kTokens, .clip_norm = 1});
  const std::vector<int32_t> ids = random_ids(kBatch * kTokens + 1, random.model.config.vocab_size, 3);
  std::vector<float> before;
  for (const auto& [role, layer] : changed) {
    const int id = table.find(role, layer);
    ASSERT_GE(id, 0);
    before.push_back(floats(random.weights[id])[0]);
  }
  double first = 0;
  for (StepInputs inputs{.lr = 1e-2}; inputs.step < 60; ++inputs.step) {
    step.compute_gradients(inputs, [&](int64_t at, int64_t rows, const TrainStep::Samples& samples) {
      std::copy_n(ids.begin() + at * kTokens, rows * kTokens, samples.ids);
      std::copy_n(ids.begin() + at * kTokens + 1, rows * kTokens, samples.targets);
    });
    if (inputs.step == 0) first = step.state().loss;
    step.update();
  }
  EXPECT_LT(step.state().loss, 0.3 * first);
  auto old = before.begin();
  for (const auto& [role, layer] : changed) {
    const int id = table.find(role, layer);
    EXPECT_NE(floats(random.weights[id])[0], *old++) << table[id].name;
  }
}

TEST(LayersThatDiffer, AreTrained) {
  train_toy({"toy", "llama", R"({"n_layer": 4, "n_kv_head": 2})", toy_layers},
            {{Role::input_scale, 1}, {Role::x0_scale, 3}, {Role::attention_scale, 2}, {Role::mlp_scale, 3}});
  train_toy({"shared", "llama", R"({"n_layer": 7, "n_kv_head": 2})", toy_shared_kv, 3},
            {{Role::middle_scale, -1}, {Role::k_norm_gain, 1}, {Role::v_weight, 2}, {Role::q_weight, 5}});
}

// A step is read while the next one is queued: the read neither runs it nor sees its state.
TEST_F(TrainStepTest, ReadsAStepWhileTheNextOneIsQueued) {
  TrainStep step = make(kBatch);
  step.compute_gradients({.step = 0, .lr = 1e-2}, fill());
  step.update();
  const TrainStep::Snapshot first = step.snapshot();
  step.compute_gradients({.step = 1, .lr = 1e-2}, fill());
  step.update();
  const TrainStep::Snapshot second = step.snapshot();
  const StepState& state = step.read(first);
  EXPECT_EQ(state.step, 0);
  EXPECT_EQ(state.updates, 1);
  EXPECT_GT(state.norm, 0);
  if (is_shadow()) {
    EXPECT_GT(shadow_device().pending(), 0) << "the read waited for the next step";
  }
  EXPECT_EQ(step.read(second).updates, 2);
  EXPECT_LT(step.read(second).loss, state.loss);
}

// A device writes to the snapshots of a step, so their memory must outlive the queue.
TEST_F(TrainStepTest, WaitsForUnreadSnapshotsBeforeItIsDestroyed) {
  size_t waits = 0;
  {
    TrainStep step = make(kBatch);
    step.compute_gradients({}, fill());
    step.snapshot();
    waits = shadow_device().waits();
  }
  EXPECT_EQ(shadow_device().waits(), waits + (is_shadow() ? 1 : 0));
}

TEST_F(TrainStepTest, MicroBatchesAddUp) {
  TrainStep whole = make(kBatch), parts = make(1);
  whole.compute_gradients({}, fill());
  parts.compute_gradients({}, fill());
  EXPECT_NEAR(parts.state().loss, whole.state().loss, 1e-6 * whole.state().loss);
  EXPECT_NEAR(parts.state().norm, whole.state().norm, 1e-5 * whole.state().norm);
}

TEST_F(TrainStepTest, LimitsSkipTheStep) {
  TrainStep step = make(kBatch);
  StepState state{.updates = 5, .outlier_z = 1};
  for (int64_t i = 0; i < ScalarWindow::kSize; ++i)  // norms far below the real one
    state.norms.values[state.norms.count++] = 1e-9 * static_cast<double>(i % 2);
  step.set_state(state);
  step.compute_gradients({.lr = 1}, fill());
  const std::vector<float> before = floats(random_.weights.all());
  step.update();
  EXPECT_TRUE(step.is_skipped());
  EXPECT_EQ(step.state().updates, 5);
  EXPECT_EQ(before, floats(random_.weights.all()));
}

// Gradients are clipped by value first. The norm and its clipping factor are computed from the clipped
// gradients.
TEST_F(TrainStepTest, ClipsValuesBeforeTheNorm) {
  constexpr double kLimit = 1e-4;
  TrainStep step = make(kBatch, {.clip_norm = 1e-3, .clip_value = kLimit});
  step.set_state({.scaling = {.scale = 4}});
  step.compute_gradients({.lr = 1e-3}, fill());
  step.update();
  double squares = 0;
  for (const float x : floats(step.grads().all())) {
    const double g = x / 4.0;
    EXPECT_LE(std::abs(g), kLimit * (1 + 1e-6));
    squares += g * g;
  }
  EXPECT_NEAR(step.state().grad_scale, 1e-3 / (std::sqrt(squares) + 1e-6) / 4, 1e-8);
}

TEST_F(TrainStepTest, NamesTheFirstThatIsNotFinite) {
  TrainStep step = make(kBatch);
  step.compute_gradients({}, fill());
  EXPECT_EQ(step.first_nonfinite(), "");
  EXPECT_NO_THROW(step.require_finite_weights());
  const int id = model().table.find(Role::down_proj_weight, 1);
  set(step.grads()[id], 0, 7, NAN);
  EXPECT_EQ(step.first_nonfinite(), "the gradient of " + model().table[id].name);
  const int gain = model().table.find(Role::norm2_gain, 0);
  set(random_.weights[gain], 0, 0, INFINITY);
  EXPECT_EQ(step.first_nonfinite(), model().table[gain].name);
  try {
    step.require_finite_weights();
    FAIL() << "such weights would be saved";
  } catch (const Error& error) {
    EXPECT_TRUE(names(error.what(), {model().table[gain].name}));
  }
}

double squares(const std::vector<float>& x) {
  double sum = 0;
  for (const float y : x)
    sum += double{y} * y;
  return sum;
}

TEST_F(TrainStepTest, SquaresOfTheLastUpdateTakeOneWait) {
  for (const char* optimizer : {"adamw", "muon", "muon-nanochat"}) {
    const RandomModel random(model().config, DType::f32);
    const ParamTable& table = random.model.table;
    TrainConfig config{.batch_size = kBatch, .micro_batch = kBatch, .optimizer = optimizer};
    complete(config);
    TrainStep step(random.model, random.weights, make_optimizer(config, table), backend(pool_, best_isa()),
                   step_options(config, table, kTokens));
    step.compute_gradients({.lr = 1e-3}, fill());
    std::vector<std::vector<float>> before;
    for (int id = 0; id < table.count(); ++id)
      before.push_back(floats(random.weights[id]));
    step.update();
    const size_t waits = shadow_device().waits();
    const std::vector<UpdateSquares> last = step.last_update();
    EXPECT_EQ(shadow_device().waits(), waits + (is_shadow() ? 1 : 0)) << optimizer;
    for (int id = 0; id < table.count(); ++id) {
      const UpdateSquares& found = last[static_cast<size_t>(id)];
      const std::vector<float> after = floats(random.weights[id]);
      std::vector<float>& change = before[static_cast<size_t>(id)];
      for (size_t i = 0; i < after.size(); ++i)
        change[i] -= after[i];
      const double expected = squares(change);
      // The weights before the update are not available, so the expected change is a difference of fp32
      // weights near 1, and weight decay is computed from the weights after the update.
      EXPECT_NEAR(found.update, expected, 0.01 * expected) << optimizer << " " << table[id].name;
      EXPECT_NEAR(found.weight, squares(after), 1e-5 * squares(after)) << optimizer << " " << table[id].name;
    }
  }
}

TEST_F(TrainStepTest, RangeSquaresAreThoseOfTheGradients) {
  TrainStep step = make(kBatch);
  step.compute_gradients({}, fill());
  const std::vector<float> all = floats(step.grads().all());
  const int64_t size = std::ssize(all), middle = size / 3;
  const std::vector<ElementRange> ranges = {{0, middle}, {middle, size}};
  const std::vector<double> found = step.range_squares(ranges);
  for (size_t i = 0; i < ranges.size(); ++i) {
    const std::vector<float> part(all.begin() + ranges[i].begin, all.begin() + ranges[i].end);
    EXPECT_GT(found[i], 0);
    EXPECT_NEAR(found[i], squares(part), 1e-5 * squares(part));
  }
}

// A frozen parameter has no gradient and no optimizer state. Trained parameters have the same gradients as
// without freezing.
TEST_F(TrainStepTest, TrainsWhatIsTrainable) {
  TrainStep all = make(2);
  const int64_t all_bytes = all.bytes();
  all.compute_gradients({}, fill());
  ParamTable& table = random_.model.table;
  for (int id = 0; id < table.count(); ++id)
    table.set_trainable(id, table[id].role == Role::q_weight || table[id].role == Role::norm2_gain);
  const ParamBuffer trained(table, DType::f32, "trained weights", device());
  for (int id = 0; id < table.count(); ++id) {
    if (!trained[id]) continue;
    copy_elements(random_.weights[id], trained[id]);
    random_.model.weights[static_cast<size_t>(id)] = trained[id];
  }
  TrainStep some(random_.model, trained, make_adamw(table, {}), backend(pool_, best_isa()),
                 {.batch_size = kBatch, .micro_batch = 2, .n_ctx = kTokens});
  some.compute_gradients({.lr = 1e-2}, fill());
  for (int id = 0; id < table.count(); ++id) {
    ASSERT_EQ(bool(some.grads()[id]), table[id].trainable) << table[id].name;
    if (table[id].trainable) {
      ASSERT_EQ(floats(some.grads()[id]), floats(all.grads()[id])) << table[id].name;
    }
  }
  some.update();
  const int q = table.find(Role::q_weight, 1);
  EXPECT_NE(floats(trained[q]), floats(random_.weights[q]));
  EXPECT_LT(some.bytes(), all_bytes);
}

// The results depend only on the number of shards.
TEST_F(TrainStepTest, AnyNumberOfProcessesMakesTheSameStep) {
  if (is_shadow()) GTEST_SKIP() << "processes exchange memory of the host";
  TrainStep whole = make(1, {.shards = kBatch, .clip_norm = 1});
  whole.compute_gradients({.lr = 1e-3}, fill());
  const std::vector<float> expected = floats(whole.grads().all());
  TrainStep unsharded = make(1);
  unsharded.compute_gradients({.lr = 1e-3}, fill());
  EXPECT_NEAR(unsharded.state().loss, whole.state().loss, 1e-9);
  EXPECT_NEAR(unsharded.state().norm, whole.state().norm, 1e-6 * whole.state().norm);
  for (const int processes : {2, 4}) {
    Team(processes).run([&](Communicator& member) {
      ThreadPool pool(1);
      TrainStep step(model(), random_.weights, make_adamw(model().table, {}), backend(pool, best_isa()),
                     {.batch_size = kBatch,
                      .micro_batch = 1,
                      .shards = kBatch,
                      .n_ctx = kTokens,
                      .clip_norm = 1,
                      .communicator = &member});
      step.compute_gradients({.lr = 1e-3}, fill());
      EXPECT_EQ(step.state().loss, whole.state().loss) << processes;
      EXPECT_EQ(step.state().norm, whole.state().norm) << processes;
      EXPECT_EQ(step.state().grad_scale, whole.state().grad_scale) << processes;
      EXPECT_TRUE(floats(step.grads().all()) == expected) << processes;
    });
  }
}

// Returns the weights of the model. Gathers them from all ranks if they are sharded.
std::vector<float> all_weights(const Model& model) {
  std::vector<float> all;
  for (int id = 0; id < model.table.count(); ++id) {
    const int64_t layer = WeightSource::layer_of(model.table[id], model.config.n_layer);
    if (model.source != nullptr) model.source->begin(layer, layer);
    std::ranges::copy(floats(model.weights[static_cast<size_t>(id)]), std::back_inserter(all));
  }
  return all;
}

// The result of three training steps.
struct Trained {
  std::vector<float> weights, average;
  std::map<std::string, std::vector<float>> state;  // by name in files, only what this rank keeps
  double loss = 0, norm = 0, ratio = 0;
  int64_t state_bytes = 0, weights_kept = 0;
};

Trained train_large(const TrainConfig& config, Communicator& processes) {
  constexpr int64_t kSteps = 3;
  RandomModel random(
      make_config({.name = "large",
                   .family = "gpt2",
                   .keys = R"({"n_layer": 2, "vocab_size": 40000, "n_embd": 48, "n_head": 3})"}),
      DType::f32);
  ThreadPool pool(1);
  TrainStep step(random.model, random.weights, make_optimizer(config, random.model.table),
                 backend(pool, best_isa()), step_options(config, random.model.table, kTokens, processes));
  random.model.source = step.sharded();
  StepInputs start{.lr = 1e-2};
  Trained result;
  for (; start.step < kSteps; ++start.step) {
    step.compute_gradients(start, [&](int64_t first, int64_t rows, const TrainStep::Samples& samples) {
      const std::vector<int32_t> all = random_ids(config.batch_size * kTokens + 1, 40000, 3);
      std::copy_n(all.begin() + first * kTokens, rows * kTokens, samples.ids);
      std::copy_n(all.begin() + first * kTokens + 1, rows * kTokens, samples.targets);
    });
    step.update();
  }
  const NamedValues norms = gradient_norms(step), ratios = update_ratios(step);
  result.loss = step.state().loss;
  result.norm = norms.back().second;
  result.ratio = ratios.back().second;
  const std::vector<float> kept = floats(random.weights.all());
  result.weights_kept = std::ssize(kept) - std::ranges::count(kept, 0.0f);
  result.weights = all_weights(random.model);
  for (const OptimizerState::Part& part : step.optimizer_state().parts()) {
    std::vector<float>& whole = result.state[part.name];
    whole.resize(static_cast<size_t>(checked_size(part.shape, part.name)), std::nanf(""));
    std::ranges::copy(floats(part.view), whole.begin() + part.begin);
  }
  {
    const AverageInModel average(random.model, step, config.ema > 0);
    result.average = all_weights(random.model);
  }
  EXPECT_TRUE(all_weights(random.model) == result.weights);
  result.state_bytes = step.optimizer_state()[0].size();
  return result;
}

// With sharded optimizer state and gradients, each rank updates its shard. All ranks then have the same
// weights and the same averaged weights.
class Zero : public testing::TestWithParam<std::tuple<const char*, double>> {};

TEST_P(Zero, MakesTheSameUpdates) {
  if (is_shadow()) GTEST_SKIP() << "processes exchange memory of the host";
  TrainConfig config{.steps = 10,
                     .batch_size = 4,
                     .micro_batch = 1,
                     .grad_shards = 4,
                     .optimizer = std::get<0>(GetParam()),
                     .warmup = 0};
  config.clip_value = 0.01;
  config.ema = std::get<1>(GetParam());
  complete(config);
  config.zero = 1;
  const Trained whole = train_large(config, single_process());
  for (const int which : {0, 1, 2, 3, 4, 5}) {
    const int size = which % 2 == 0 ? 2 : 4;
    config.zero = 1 + which / 2;
    Team(size).run([&](Communicator& processes) {
      const Trained part = train_large(config, processes);
      EXPECT_TRUE(part.weights == whole.weights) << size;
      EXPECT_TRUE(part.average == whole.average) << size;
      for (const auto& [name, all] : whole.state) {
        const auto own = part.state.find(name);
        if (own == part.state.end()) continue;
        for (size_t i = 0; i < all.size(); ++i)
          ASSERT_TRUE(std::isnan(own->second[i]) || own->second[i] == all[i]) << name << " " << i;
      }
      EXPECT_LT(part.state_bytes, 1.2 * static_cast<double>(whole.state_bytes) / size);
      EXPECT_LT(part.weights_kept,
                1.2 * static_cast<double>(whole.weights_kept) / (config.zero > 2 ? size : 1));
      EXPECT_NEAR(part.norm, whole.norm, 1e-6 * whole.norm);
      EXPECT_NEAR(part.ratio, whole.ratio, 1e-6 * whole.ratio);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Zero,
                         testing::Combine(testing::Values("adamw", "muon", "muon-nanochat"),
                                          testing::Values(0.0, 0.9)));

class FastReduce : public testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  static constexpr int kProcesses = 3;

  void SetUp() override {
    if (is_shadow()) GTEST_SKIP() << "processes exchange memory of the host";
  }
  // The batch has 12 samples. With ZeRO 2 and 3, a micro-batch must contain all samples of a rank.
  static TrainConfig config(Reduce reduce, int64_t shards) {
    TrainConfig c{.steps = 10,
                  .batch_size = 12,
                  .micro_batch = 12,
                  .grad_shards = shards,
                  .reduce = reduce,
                  .zero = std::get<1>(GetParam()),
                  .optimizer = std::get<0>(GetParam()),
                  .warmup = 0};
    complete(c);
    c.micro_batch = c.zero > 1 ? 12 / kProcesses : 1;
    return c;
  }
  // Trains on all ranks and checks that they have the same result.
  static Trained train_together(const TrainConfig& c) {
    std::vector<Trained> all(kProcesses);
    Team(kProcesses).run([&](Communicator& processes) {
      all[static_cast<size_t>(processes.rank())] = train_large(c, processes);
    });
    for (const Trained& one : all) {
      EXPECT_TRUE(one.weights == all[0].weights);
      EXPECT_EQ(one.loss, all[0].loss);
      EXPECT_EQ(one.norm, all[0].norm);
    }
    return all[0];
  }
};

// Fast reduction ignores grad_shards. The result equals that of one shard per rank.
TEST_P(FastReduce, HasOneShardForEachProcess) {
  const Trained fast = train_together(config(Reduce::fast, 12));
  const Trained alone = train_large(config(Reduce::exact, kProcesses), single_process());
  EXPECT_TRUE(fast.weights == alone.weights);
  EXPECT_EQ(fast.loss, alone.loss);
}

TEST_P(FastReduce, RoundedMessagesLeaveTheSameWeightsEverywhere) {
  const Trained exact = train_together(config(Reduce::exact, kProcesses)),
                rounded = train_together(config(Reduce::fast_bf16, kProcesses));
  EXPECT_FALSE(rounded.weights == exact.weights);
  EXPECT_TRUE(rounded.weights == train_together(config(Reduce::fast_bf16, 12)).weights);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, FastReduce,
                         testing::Combine(testing::Values("adamw", "muon"), testing::Values(0, 1, 2, 3)));

}  // namespace
}  // namespace gpt::test
