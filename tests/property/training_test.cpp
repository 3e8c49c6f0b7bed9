// Training gives the same bits for any number of threads.

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

// Small outputs with a long inner dimension are where a matrix product is tempted to split the sum: the
// weight gradients of 64x64 over 16*256 rows, or of four columns. The reference gets fewer rows, since it
// has no such temptation and takes its time.
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
  for (int round = 0; round < 2; ++round) {  // sets, then accumulates
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

// Gradients do not change after the event of their hook, which is called once for each parameter.
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

// Instruction sets need not agree in bits, but they compute the same function.
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

// 16-bit training computes the same function, to the rounding of 16 bits. Rounding in bf16 is 8 times coarser
// than in fp16, so that the squared angle to the gradient in fp32 is about 64 times larger, and up to 256
// times for one set of roundings: a deep model may amplify what in fp16 is still a small angle.
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
        // 1 - cos of an angle is half of its square; an error of the same size may lie along the gradient.
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
