// Compares scores, log-likelihoods and texts with lm-evaluation-harness 0.4.13 and with core_eval.py of
// nanochat. scripts/golden/make_tasks.py runs both.

#include <gtest/gtest.h>

#include "base/ranges.h"
#include "support/team.h"
#include "unit/tasks/task_fixture.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-4;

const json& expected() {
  static const json all = read_json_file(task_data("expected.json"));
  return all;
}

std::vector<std::string> task_files() {
  std::vector<std::string> files;
  for (const FolderEntry& entry : list_folder(task_data("tasks"))) {
    if (entry.name.ends_with(".yaml") && entry.name != "animals.yaml")
      files.push_back(task_data("tasks/" + entry.name));
  }
  files.push_back(task_data("tasks/animals.yaml"));  // a group of some of these tasks
  return files;
}

void compare_responses(const json& ours, const json& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    if (theirs[i].is_string()) {
      EXPECT_EQ(ours[i], theirs[i]);
    } else {
      EXPECT_NEAR(ours[i]["logprob"].get<double>(), theirs[i]["logprob"].get<double>(), kTolerance);
      if (theirs[i].contains("greedy")) {
        EXPECT_EQ(ours[i]["greedy"], theirs[i]["greedy"]);
      }
    }
  }
}

void compare_metrics(const TaskResult& result, const json& scores, ThreadPool& pool) {
  for (const MetricResult& m : result.metrics) {
    SCOPED_TRACE(m.name);
    const double theirs = scores.at(m.name + "," + m.filter).get<double>();
    EXPECT_NEAR(m.estimate.value, theirs, kTolerance * std::max(1.0, std::fabs(theirs)));
    EXPECT_LE(m.estimate.interval.low, m.estimate.value);
    EXPECT_GE(m.estimate.interval.high, m.estimate.value);
    const auto error = scores.find(m.name + "_stderr," + m.filter);
    EXPECT_EQ(m.estimate.standard_error.has_value(), error != scores.end());
    if (error == scores.end()) continue;
    // The bootstrap of the generator script uses 2,000 resamples.
    const double ours = *estimate(m.aggregation, m.items, pool, 2).standard_error;
    EXPECT_NEAR(ours, error->get<double>(), kTolerance * std::max(1.0, std::fabs(theirs)));
  }
}

class Harness : public testing::TestWithParam<const char*> {};

TEST_P(Harness, AllTasks) {
  TestModel model(GetParam());
  const json& theirs = expected().at(GetParam());
  const TaskSet set = read_task_set(task_files());
  EXPECT_EQ(set.tasks.size(), 14u);
  std::map<std::string, std::vector<json>> samples;
  TaskOptions options;
  options.on_sample = [&](const std::string& line) {
    json sample = json::parse(line);
    samples[sample["task"]].push_back(std::move(sample));
  };
  std::vector<TaskResult> results;
  for (const TaskConfig& task : set.tasks) {
    SCOPED_TRACE(task.name);
    results.push_back(run_task(task, model.model, options, model.pool));
    compare_metrics(results.back(), theirs["scores"][task.name], model.pool);
    const json& responses = theirs["responses"][task.name];
    ASSERT_EQ(samples[task.name].size(), responses.size());
    for (size_t i = 0; i < responses.size(); ++i)
      compare_responses(samples[task.name][i]["responses"], responses[i]);
  }
  for (const TaskGroup& group : set.groups) {
    SCOPED_TRACE(group.name);
    const std::vector<GroupScore> scores = group_scores(group, results);
    ASSERT_EQ(scores.size(), 1u);
    const json& score = theirs["scores"][group.name];
    EXPECT_NEAR(scores[0].value, score.at("acc,none").get<double>(), kTolerance);
    EXPECT_NEAR(*scores[0].standard_error, score.at("acc_stderr,none").get<double>(), kTolerance);
  }
  // All choices of a question share most of the prompt, and all questions share a part of it.
  EXPECT_LT(3 * model.model.counts().computed, model.model.counts().asked);
}

TEST_P(Harness, Core) {
  TestModel model(GetParam());
  const json& theirs = expected().at(GetParam()).at("core");
  const std::string path = task_data("core/core.yaml");
  EXPECT_TRUE(is_core_bundle(path));
  EXPECT_FALSE(is_core_bundle(task_data("tasks/choice.yaml")));
  std::vector<CoreResult> results;
  for (const CoreTask& task : read_core_bundle(path)) {
    SCOPED_TRACE(task.label);
    results.push_back(run_core_task(task, model.model, {}, model.pool));
    EXPECT_NEAR(results.back().result.metrics[0].estimate.value, theirs["results"][task.label].get<double>(),
                1e-6);
    EXPECT_NEAR(results.back().centered, theirs["centered_results"][task.label].get<double>(), 1e-6);
  }
  EXPECT_NEAR(core_metric(results), theirs["core_metric"].get<double>(), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Models, Harness, testing::Values("gpt2", "llama"),
                         [](const auto& param) { return std::string(param.param); });

// Scores are bit-identical for any batch and any cache size.
TEST(Scores, DoNotDependOnTheBatch) {
  const TaskConfig task = read_task_config(TaskFile(task_data("tasks/choice.yaml")));
  const auto run = [&](int slots, int64_t rows, int64_t cache) {
    TestModel model("gpt2", slots, rows, cache);
    std::vector<json> responses;
    TaskOptions options{.limit = 6};
    options.on_sample = [&](const std::string& line) { responses.push_back(json::parse(line)["responses"]); };
    run_task(task, model.model, options, model.pool);
    return responses;
  };
  const std::vector<json> one = run(1, 512, 0);
  EXPECT_EQ(one, run(1, 7, 256));
  EXPECT_EQ(one, run(16, 64, 320));
  EXPECT_EQ(one, run(5, 1, 0));
}

// Covers multiple choice, log-likelihoods of whole texts, and generated responses. Each question is computed
// once, by one of the ranks.
TEST(Scores, AreThoseOfOneProcess) {
  const auto samples_of = [&](const std::string& file, Communicator& processes) {
    const TaskConfig task = read_task_config(TaskFile(task_data(file)));
    TestModel model("gpt2", 4, 128, 0, processes);
    std::string samples;
    TaskOptions options;
    options.on_sample = [&](const std::string& line) { samples += line + "\n"; };
    run_task(task, model.model, options, model.pool);
    return samples + std::to_string(model.model.counts().asked);
  };
  for (const char* file : {"tasks/choice.yaml", "tasks/pages.yaml", "tasks/sums.yaml"}) {
    const std::string alone = samples_of(file, single_process());
    for (const int size : {2, 5}) {
      test::Team(size).run([&](Communicator& processes) { EXPECT_EQ(samples_of(file, processes), alone); });
    }
  }
}

TEST(Limit, TakesTheFirstDocuments) {
  TestModel model("gpt2");
  const TaskConfig task = read_task_config(TaskFile(task_data("tasks/choice.yaml")));
  const TaskResult few = run_task(task, model.model, {.limit = 3}, model.pool);
  EXPECT_EQ(few.documents, 3);
  EXPECT_EQ(few.of_documents, 24);
  const TaskResult all = run_task(task, model.model, {}, model.pool);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(few.metrics[0].items[i].value, all.metrics[0].items[i].value);
  EXPECT_EQ(run_task(task, model.model, {.num_fewshot = 1}, model.pool).num_fewshot, 1);
}

TEST(PythonRandom, IsCPythons) {
  for (const json& row : expected().at("random")) {
    const auto seed = row["seed"].get<uint64_t>();
    PythonRandom random(seed);
    for (const json& bits : row["bits"])
      EXPECT_EQ(random.next_u32(), bits.get<uint32_t>());
    EXPECT_EQ(random.random(), row["random"].get<double>());
    for (const json& sample : row["samples"])
      EXPECT_EQ(random.sample(sample["n"].get<size_t>(), sample["k"].get<size_t>()),
                sample["of"].get<std::vector<size_t>>());
    EXPECT_EQ(PythonRandom(seed).shuffled(8), row["shuffled"].get<std::vector<size_t>>());
  }
}

}  // namespace
}  // namespace gpt
