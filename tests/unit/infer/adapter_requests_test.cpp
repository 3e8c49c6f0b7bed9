// Tests requests with different adapters that share steps and cache pages. Each request must get the same
// result as alone.

#include <gtest/gtest.h>

#include <map>

#include "infer/beam.h"
#include "infer/cached_model.h"
#include "infer/engine.h"
#include "support/adapted_model.h"
#include "support/backend.h"
#include "support/names.h"

namespace gpt::test {
namespace {

class AdapterRequests : public testing::Test {
 protected:
  AdapterRequests()
      : base(make_config({"adapted", "llama", R"({"n_ctx": 120, "n_kv_head": 2})"}), DType::f32),
        first(base.model, DType::f32, 1),
        second(base.model, DType::f32, 2, {Role::v_weight, Role::down_proj_weight}, 5) {}

  Inference make(int slots) {
    Inference inference(base.model, backend(pool, best_isa()),
                        {.slots = slots, .max_rows = 40, .cache_tokens = 400, .adapter_rank = 5});
    inference.add_adapter(first.adapter);
    inference.add_adapter(second.adapter);
    return inference;
  }
  // All prompts share a prefix.
  Request request(uint64_t number, int adapter) const {
    std::vector<int32_t> prompt = random_ids(50, base.model.config.vocab_size, 7);
    prompt.push_back(static_cast<int32_t>(number % 3));
    return {.prompt = prompt,
            .max_tokens = 30,
            .sampling = {.temperature = 1, .top_k = 0},
            .seed = 3,
            .number = number,
            .adapter = adapter};
  }
  static std::map<int64_t, std::vector<int32_t>> run(Engine& engine) {
    std::map<int64_t, std::vector<int32_t>> ids;
    while (!engine.idle()) {
      for (const Event& event : engine.step())
        ids[event.request].push_back(event.id);
    }
    return ids;
  }

  ThreadPool pool{2};
  RandomModel base;
  RandomAdapter first, second;
};

TEST_F(AdapterRequests, AreAsAlone) {
  Inference many = make(5);
  CachedModel shared(many, false);
  Engine engine(shared, {.step_rows = 40});
  constexpr int kRequests = 12;
  for (int i = 0; i < kRequests; ++i)
    engine.submit(request(static_cast<uint64_t>(i), i % 3 - 1));
  const auto together = run(engine);
  EXPECT_GT(engine.counts().reused, 50 * 3);  // the prefix is computed about once per adapter
  for (int i = 0; i < kRequests; ++i) {
    Inference one = make(1);
    CachedModel model(one, false);
    Engine alone(model, {.step_rows = 40});
    alone.submit(request(static_cast<uint64_t>(i), i % 3 - 1));
    EXPECT_EQ(run(alone).at(0), together.at(i)) << i;
  }
  Engine other(shared, {.step_rows = 40});
  other.submit(request(1, 1));
  EXPECT_NE(run(other).at(0), together.at(1)) << "the adapter makes no difference";
}

TEST_F(AdapterRequests, BeamsHaveOneToo) {
  Inference inference = make(3);
  CachedModel model(inference, false);
  const std::vector<int32_t> prompt = request(0, 0).prompt;
  const auto beams = [&](int adapter) {
    return beam_search(model, prompt, {.width = 3, .steps = 5, .adapter = adapter})[0].log_prob;
  };
  const double plain = beams(-1);
  EXPECT_NE(beams(0), plain);
  EXPECT_EQ(beams(-1), plain);
}

// After a new adapter gets the number of a freed one, the number only refers to the new adapter.
TEST_F(AdapterRequests, ANumberThatIsGivenAgain) {
  Inference inference = make(2);
  CachedModel model(inference, false);
  Engine engine(model, {.step_rows = 40});
  const auto answer = [&](int adapter) {
    const int64_t id = engine.submit(request(1, adapter));
    return run(engine).at(id);
  };
  const std::vector<int32_t> of_first = answer(0), of_second = answer(1);
  ASSERT_NE(of_first, of_second);
  const std::vector<int32_t> prompt = request(1, 0).prompt;
  EXPECT_GT(inference.prospect(prompt, 0).known, 0);
  inference.reset(0, 0);
  inference.free_adapter(0);
  EXPECT_EQ(inference.prospect(prompt, 0).known, 0);
  EXPECT_GT(inference.prospect(prompt, 1).known, 0);
  EXPECT_EQ(inference.add_adapter(second.adapter), 0);
  EXPECT_EQ(answer(0), of_second);
  EXPECT_EQ(answer(1), of_second);
}

TEST_F(AdapterRequests, AreLimitedInNumber) {
  Inference inference = make(1);
  while (inference.adapters() < Inference::kMostAdapters)
    inference.add_adapter(first.adapter);
  EXPECT_THROW(inference.add_adapter(first.adapter), Error);
  inference.reset(0, Inference::kMostAdapters - 1, Inference::kSalts - 1);
  inference.free_adapter(7);
  EXPECT_EQ(inference.add_adapter(first.adapter), 7);
}

TEST_F(AdapterRequests, ThatAreNotThere) {
  Inference inference = make(1);
  CachedModel model(inference, false);
  Engine engine(model, {});
  for (const int adapter : {2, -2})
    EXPECT_TRUE(refused_parameter([&] { engine.submit(request(0, adapter)); }, "adapter",
                                  {model.adapters(), adapter}));
}

}  // namespace
}  // namespace gpt::test
