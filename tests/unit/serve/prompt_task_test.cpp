#include "serve/models/prompt_task.h"

#include <gtest/gtest.h>

#include "base/ranges.h"
#include "support/small_models.h"

namespace gpt::serve {
namespace {

using test::RandomModel;

// A worker offers a fixed number of rows while sequences are running, which may exceed the rows of a step.
class PromptTaskTest : public ::testing::TestWithParam<int64_t> {
 protected:
  PromptTaskTest()
      : random(test::make_config({"gpt2", "gpt2", R"({"n_ctx": 40})"}), DType::f32),
        inference(random.model, test::backend(pool, best_isa()), {.slots = 2, .max_rows = GetParam()}) {}

  PromptTask::Prompt prompt() const {
    return {.ids = transformed_indices(30, [](int64_t i) { return static_cast<int32_t>(i * i % 23); })};
  }
  void run(PromptTask& task) {
    while (!task.run(1000)) {
    }
  }

  ThreadPool pool{1};
  RandomModel random;
  Inference inference;
};

TEST_P(PromptTaskTest, ScoresAreTheSameForAnyRowsOfAStep) {
  const auto scores = [&](Inference& of) {
    std::vector<double> values;
    const auto done = [&](const std::vector<Logprobs>& all) {
      values = transformed(all, [](const Logprobs& l) { return l.chosen.logprob; });
    };
    ScoreTask task(of, 0, prompt(), 2, done, [](const std::exception& e) { FAIL() << e.what(); });
    run(task);
    return values;
  };
  Inference whole(random.model, test::backend(pool, best_isa()), {.slots = 2});
  const std::vector<double> expected = scores(whole);
  EXPECT_EQ(std::ssize(expected), 29);
  EXPECT_EQ(scores(inference), expected);
}

TEST_P(PromptTaskTest, EmbeddingsAreTheSameForAnyRowsOfAStep) {
  const auto embedding = [&](Inference& of) {
    std::vector<float> result;
    EmbedTask task(
        of, 1, prompt(), [&](std::vector<float> values) { result = std::move(values); },
        [](const std::exception& e) { FAIL() << e.what(); });
    run(task);
    return result;
  };
  Inference whole(random.model, test::backend(pool, best_isa()), {.slots = 2});
  const std::vector<float> expected = embedding(whole);
  EXPECT_EQ(std::ssize(expected), random.model.config.n_embd);
  EXPECT_EQ(embedding(inference), expected);
}

INSTANTIATE_TEST_SUITE_P(Rows, PromptTaskTest, ::testing::Values(2, 7, 64));

}  // namespace
}  // namespace gpt::serve
