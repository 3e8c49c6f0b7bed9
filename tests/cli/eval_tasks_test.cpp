// Tests gpt eval --tasks with a task set about the tales and a model that is trained here, and the printed
// scores.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

std::string data(const std::string& name) {
  return std::string(GPT_SOURCE_DIR) + "/tests/data/tasks/" + name;
}

GptRun eval(const std::string& model, const Words& more) {
  Words words = {"eval", model, "--threads", "1", "--tasks"};
  words.insert(words.end(), more.begin(), more.end());
  return run_gpt(words);
}

json eval_json(const std::string& model, Words more) {
  more.emplace_back("--json");
  const GptRun run = eval(model, more);
  EXPECT_EQ(run.status, 0) << run.err;
  return json::parse(run.out);
}

// A small model that was trained long enough remembers the stories of the questions. A model with one
// training step can only guess.
TEST(EvalTasks, TellATrainedModelFromAnUntrainedOne) {
  const gpt::test::TempDir dir;
  const auto made = [&](const Words& words) {
    const GptRun run = run_gpt(words);
    ASSERT_EQ(run.status, 0) << run.err;
  };
  const std::string text = dir.file("stories.txt"), tokenizer = dir.file("tokenizer.json");
  made({"data", "tales", "--bytes", "8000", "--seed", "9", "--out", text});
  made({"data", "tales", "--questions", "14", "--seed", "9", "--out", dir.file("tales_facts.jsonl")});
  made({"tokenizer", "train", text, "--vocab-size", "500", "--out", tokenizer});
  for (const std::string steps : {"1", "220"}) {
    made({"train",          text, "--tokenizer", tokenizer,
          "--val-fraction", "0",  "--n-layer",   "1",
          "--n-head",       "2",  "--n-embd",    "64",
          "--n-ctx",        "64", "--steps",     steps,
          "--batch-size",   "16", "--lr",        "0.01",
          "--warmup",       "1",  "--threads",   "1",
          "--eval-every",   "0",  "--out",       dir.file("run" + steps)});
  }
  const json scores =
      eval_json(dir.file("run220"), {std::string(GPT_SOURCE_DIR) + "/examples/tasks/tales_facts.yaml",
                                     "--data-dir", dir.path(), "--against", dir.file("run1")});
  const json& acc = scores["results"][0]["metrics"][0];
  EXPECT_EQ(acc["metric"], "acc");
  EXPECT_GE(acc["value"], 0.75);
  const json& paired = scores["against"]["paired"][0];
  EXPECT_GE(paired["difference"], 0.25);
  EXPECT_GT(paired["interval_95"][0], 0);
  EXPECT_LT(paired["p_bootstrap"], 0.05);
  EXPECT_GT(paired["only_right"][0], paired["only_right"][1]);
}

TEST(EvalTasks, TableAndJsonSayTheSame) {
  const Words tasks = {data("tasks/letters.yaml"), data("core/core.yaml"), "--limit", "8"};
  const GptRun run = eval(data("gpt2"), tasks);
  ASSERT_EQ(run.status, 0) << run.err;
  const json scores = eval_json(data("gpt2"), tasks);
  ASSERT_EQ(scores["results"].size(), 5u);
  EXPECT_EQ(scores["results"][0]["num_fewshot"], 2);
  for (const json& task : scores["results"]) {
    EXPECT_EQ(task["documents"], 8);
    EXPECT_TRUE(names(run.out, {task["alias"].get<std::string>(),
                                fmt::format("{:.4f}", task["metrics"][0]["value"].get<double>())}));
  }
  EXPECT_TRUE(names(run.out, {fmt::format("{:.4f}", scores["core"]["core_metric"].get<double>())}));
  EXPECT_LT(scores["tokens"]["computed"], scores["tokens"]["asked"]);
  EXPECT_EQ(eval(data("gpt2"),
                 [&] {
                   Words more = tasks;
                   more.insert(more.end(), {"--batch-size", "1"});
                   return more;
                 }())
                .out,
            run.out);
}

TEST(EvalTasks, WriteAPageAndALog) {
  const gpt::test::TempDir dir;
  const std::string page = dir.file("page.html"), log = dir.file("log.jsonl");
  const GptRun run = eval(data("llama"), {data("tasks/animals.yaml"), "--limit", "5", "--few-shot", "1",
                                          "--html", page, "--log-samples", log, "--against", data("gpt2")});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.out, {"animals"}));
  std::stringstream html;
  html << std::ifstream(page).rdbuf();
  EXPECT_TRUE(names(html.str(), {"McNemar", "choice_mutual"}));
  std::ifstream lines(log);
  int64_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const json sample = json::parse(line);
    EXPECT_TRUE(sample.contains("arguments") && sample.contains("responses") && sample.contains("metrics"));
    EXPECT_TRUE(names(sample["place"].get<std::string>(), {".jsonl"}));
  }
  EXPECT_EQ(count, 15);
}

// A log is recognized by its first bytes, even if its prompts are long. gpt eval may replace a log, but not
// other files.
TEST(EvalTasks, ALogIsReplacedByTheNext) {
  const gpt::test::TempDir dir;
  const std::string log = dir.file("log.jsonl"), task = dir.file("t.yaml");
  std::ofstream(dir.file("d.jsonl")) << json{{"q", std::string(9000, 'x')}, {"a", "b"}}.dump() << "\n";
  std::ofstream(task) << "task: t\ndataset_path: json\ndataset_kwargs: {data_files: {test: d.jsonl}}\n"
                         "test_split: test\noutput_type: loglikelihood\ndoc_to_text: q\ndoc_to_target: a\n";
  for (int i = 0; i < 2; ++i) {
    const GptRun run = eval(data("gpt2"), {task, "--log-samples", log});
    EXPECT_EQ(run.status, 0) << run.err;
  }
  std::ofstream(log) << json{{"prompt", std::string(9000, 'x')}}.dump() << "\n";
  EXPECT_EQ(eval(data("gpt2"), {task, "--log-samples", log}).status, 1);
}

TEST(EvalTasks, MistakesAreNamed) {
  const auto refused = [](const Words& more, int status, const Facts& facts) {
    const GptRun run = eval(data("gpt2"), more);
    EXPECT_EQ(run.status, status);
    EXPECT_EQ(run.out, "");
    EXPECT_TRUE(names(run.err, facts));
  };
  const std::string choice = data("tasks/choice.yaml");
  refused({data("tasks")}, 1, {data("tasks"), ".yaml"});
  refused({data("nothing.yaml")}, 1, {data("nothing.yaml")});
  refused({choice, "--data", "x.txt"}, 2, {"--tasks", "--data"});
  refused({choice, "--few-shot", "-1"}, 2, {"--few-shot", 0, 1000, -1});
  refused({choice, "--limit", "0"}, 2, {"--limit", 1, 0});
  refused({choice, "--html", choice}, 2, {"--html", choice, ".html"});
}

}  // namespace
