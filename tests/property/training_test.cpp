// Tests that training is bit-identical for any number of threads.

#include <gtest/gtest.h>

#include "model/training_graph.h"
#include "support/backend.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

struct Shape2 {
  SmallConfig config;
  int64_t batch, n_tokens;
};

// Matmuls with small outputs and a long inner dimension are where a library would split the sum by thread.
// Such matmuls are weight gradients of 64x64 over 16*256 rows, or with four columns. The reference never
// splits sums and is slow, so it gets fewer rows.
std::vector<Shape2> shapes(Isa isa) {
  const int64_t batch = isa == Isa::ref ? 2 : 16, n_tokens = isa == Isa::ref ? 40 : 256;
  return {
      {{"wide_rows", "mini-gpt", R"({"vocab_size": 65, "n_ctx": 256, "n_layer": 1, "n_head": 4, "n_embd": 64,
          "d_ff": 256, "dropout": 0.1})"},
       batch,
       n_tokens},
      {{"gqa", "llama",
        R"({"vocab_size": 300, "n_ctx": 64, "n_layer": 2, "n_head": 6, "n_kv_head": 2, "n_embd": 48,
          "d_ff": 80})"},
       3,
       50},
      {{"mqa_narrow", "nanochat",
        R"({"vocab_size": 11, "n_ctx": 64, "n_layer": 1, "n_head": 2, "n_kv_head": 1,
          "n_embd": 4, "d_ff": 12})"},
       5,
       61},
      {{"post_norm", "openai-gpt", R"({"vocab_size": 97, "n_ctx": 33, "n_layer": 2, "n_head": 3, "n_embd": 27,
          "d_ff": 37, "dropout": 0.1})"},
       3,
       33},
      {{"one_token", "gpt2", R"({"n_layer": 1})"}, 1, 1},
  };
}

struct Outcome {
  double loss = 0;
  std::vector<char> gradient_bytes;
  bool operator==(const Outcome&) const = default;
};

Outcome train(const Shape2& shape, Isa isa, int threads, bool recompute, DType dtype = DType::f32) {
  const ModelConfig c = make_config(shape.config);
  const RandomModel random(c, DType::f32);
  const ParamBuffer grads(random.model.table, DType::f32, "test gradients", device());
  ThreadPool pool(threads);
  TrainingGraph graph(random.model, shape.batch, shape.n_tokens, {.recompute = recompute, .dtype = dtype},
                      backend(pool, isa));
  const std::vector<int32_t> ids = random_ids(shape.batch * shape.n_tokens, c.vocab_size, 1);
  const std::vector<int32_t> targets = random_targets(shape.batch * shape.n_tokens, c.vocab_size, 2);
  Outcome outcome;
  for (int round = 0; round < 2; ++round) {  // the first round sets gradients, the second accumulates
    StepState step{.step = round, .seed = 3, .loss_weight = 1};
    DeviceArray<StepState> state(device());
    graph.forward_backward({.ids = ids.data(), .targets = targets.data()}, grads, round > 0,
                           state.share({&step, 1}));
    state.download({&step, 1});
    outcome.loss += step.loss;
  }
  const MappedView all(grads.all(), Access::read);
  outcome.gradient_bytes.assign(all->as<char>(), all->as<char>() + extent(*all));
  return outcome;
}

// Each parameter has one hook call with an event. The gradient of the parameter must not change after that
// event.
TEST(GradReadyHooks, EventsMarkFinalGradients) {
  for (const char* name : {"gpt2", "llama", "nanochat"}) {
    const ModelConfig c = make_config(small_config(name));
    const RandomModel random(c, DType::f32);
    const ParamBuffer grads(random.model.table, DType::f32, "test gradients", device());
    ThreadPool pool(1);
    const Backend b = backend(pool, best_isa());
    TrainingGraph graph(random.model, 2, 5, {}, b);
    const std::vector<int32_t> ids = random_ids(10, c.vocab_size, 1),
                               targets = random_ids(10, c.vocab_size, 2);
    std::vector<std::vector<float>> ready(static_cast<size_t>(random.model.table.count()));
    const GradReadyHook hook = [&](int first, int last, const DeviceEvent& event) {
      b.device->wait(event);
      if (is_shadow()) {
        EXPECT_EQ(shadow_device().pending(), 0);
      }
      for (int id = first; id <= last; ++id) {
        EXPECT_TRUE(ready[static_cast<size_t>(id)].empty()) << random.model.table[id].name;
        ready[static_cast<size_t>(id)] = floats(grads[id]);
      }
    };
    StepState step{.loss_weight = 1};
    DeviceArray<StepState> state(device());
    graph.forward_backward({.ids = ids.data(), .targets = targets.data()}, grads, false,
                           state.share({&step, 1}), hook);
    for (int id = 0; id < random.model.table.count(); ++id)
      EXPECT_EQ(ready[static_cast<size_t>(id)], floats(grads[id]))
          << name << " " << random.model.table[id].name;
  }
}

class Threads : public testing::TestWithParam<std::tuple<Isa, DType>> {};

TEST_P(Threads, TrainingBitsDoNotDependOnTheirNumber) {
  const auto& [isa, dtype] = GetParam();
  for (const Shape2& shape : shapes(isa)) {
    const Outcome one = train(shape, isa, 1, false, dtype);
    ASSERT_TRUE(std::isfinite(one.loss));
    for (int threads : {2, 3, 7}) {
      const Outcome more = train(shape, isa, threads, threads == 3, dtype);
      EXPECT_EQ(one.loss, more.loss) << shape.config.name << ", " << threads << " threads";
      EXPECT_TRUE(one == more) << shape.config.name << ", " << threads << " threads: gradients differ";
    }
  }
}

// Instruction sets may differ in their bits, but must compute the same function.
TEST(InstructionSets, AgreeToRounding) {
  for (const SmallConfig& small : all_configs()) {
    const Shape2 shape{small, 2, 12};
    const Outcome expected = train(shape, Isa::ref, 1, false);
    for (Isa isa : available_isas()) {
      const Outcome found = train(shape, isa, 2, false);
      EXPECT_NEAR(found.loss, expected.loss, 1e-4) << small.name << " " << isa_name(isa);
      const auto* a = reinterpret_cast<const float*>(expected.gradient_bytes.data());
      const auto* b = reinterpret_cast<const float*>(found.gradient_bytes.data());
      float top = 0;
      const size_t n = expected.gradient_bytes.size() / sizeof(float);
      for (size_t i = 0; i < n; ++i)
        top = std::max(top, std::abs(a[i]));
      for (size_t i = 0; i < n; ++i)
        ASSERT_NEAR(a[i], b[i], 1e-4f * top) << small.name << " " << isa_name(isa) << " " << i;
    }
  }
}

// 16-bit training must compute the same function as fp32, up to 16-bit rounding. The measure is the angle
// between the 16-bit and the fp32 gradient. bf16 rounding is 8 times coarser than fp16 rounding, so the
// squared angle is about 64 times larger. The squared angle may be 256 times larger for a single set of
// roundings, because a deep model can amplify an angle that is still small in fp16.
TEST(HalfPrecision, GradientsAreThoseOfFp32) {
  for (const SmallConfig& small : all_configs()) {
    const Shape2 shape{small, 2, 12};
    const Outcome expected = train(shape, Isa::ref, 1, false);
    for (Isa isa : available_isas()) {
      double bound = 0.001;
      for (DType dtype : {DType::f16, DType::bf16}) {
        const Outcome found = train(shape, isa, 2, false, dtype);
        EXPECT_NEAR(found.loss, expected.loss, 0.02 * expected.loss) << small.name << " " << isa_name(isa);
        const auto* a = reinterpret_cast<const float*>(expected.gradient_bytes.data());
        const auto* b = reinterpret_cast<const float*>(found.gradient_bytes.data());
        double dot = 0, aa = 0, bb = 0;
        for (size_t i = 0; i < expected.gradient_bytes.size() / sizeof(float); ++i) {
          dot += double{a[i]} * b[i];
          aa += double{a[i]} * a[i];
          bb += double{b[i]} * b[i];
        }
        // For a small angle a, 1 - cos(a) is about a^2 / 2. An error of the same size may be parallel to the
        // gradient.
        const double error = 1 - dot / std::sqrt(aa * bb);
        EXPECT_LT(error, bound) << small.name << " " << isa_name(isa);
        EXPECT_NEAR(std::sqrt(bb / aa), 1, std::sqrt(2 * bound)) << small.name << " " << isa_name(isa);
        bound = std::max(bound, 256 * error);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Threads,
                         testing::Combine(testing::ValuesIn(available_isas()),
                                          testing::Values(DType::f32, DType::bf16, DType::f16)),
                         [](const auto& param) {
                           return std::string(isa_name(std::get<0>(param.param))) + "_" +
                                  std::string(dtype_name(std::get<1>(param.param)));
                         });

}  // namespace
}  // namespace gpt::test
