// Tests gpt finetune with labeled examples, and gpt classify with the resulting model.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

std::string content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(json::parse(line));
  return lines;
}

// Trains a small base model and fine-tunes it to classify texts of x and texts of y.
class Classify : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<gpt::test::TempDir>();
    const GptRun base =
        run_gpt({"train", "--data", "tales:4000", "--tokenizer", "byte", "--n-layer", "1", "--n-head", "2",
                 "--n-embd", "16", "--n-ctx", "32", "--steps", "2", "--threads", "1", "--out", file("base")});
    ASSERT_EQ(base.status, 0) << base.err;
    std::string table = "text,label\n", choices;
    for (int i = 0; i < 60; ++i) {
      table +=
          std::string(static_cast<size_t>(1 + i % 6), "xy"[i % 2]) + "," + (i % 2 == 0 ? "ex\n" : "why\n");
      choices += json{{"context", "a"}, {"choices", {"b", "c"}}, {"label", i % 2}}.dump() + "\n";
    }
    std::ofstream(file("letters.csv")) << table;
    std::ofstream(file("choices.jsonl")) << choices;
    const GptRun run = finetune("run", {"--epochs", "6"});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.err, {"accuracy 1.0000", "gpt classify " + file("run/best")}));
    const size_t row = run.err.find("why ");  // a row of the confusion matrix
    ASSERT_NE(row, std::string::npos) << run.err;
    EXPECT_TRUE(names(run.err.substr(row, run.err.find('\n', row) - row), {0, 5}));
  }
  static void TearDownTestSuite() { dir_.reset(); }
  static std::string file(const std::string& name) { return dir_->file(name); }
  static GptRun finetune(const std::string& out, const Words& more) {
    Words words = {"finetune", file("base"),   "--task", "classify", "--data",  file("letters.csv"), "--lr",
                   "1e-2",     "--batch-size", "12",     "--out",    file(out), "--threads",         "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_gpt(words);
  }
  static GptRun classify(const Words& more, const std::string& input = "", const char* run = "run/best") {
    Words words = {"classify", file(run), "--threads", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return run_gpt(words, {}, input);
  }
  static std::unique_ptr<gpt::test::TempDir> dir_;
};
std::unique_ptr<gpt::test::TempDir> Classify::dir_;

TEST_F(Classify, OneLineForEachInputInOrder) {
  const GptRun one = classify({"--text", "xxx"});
  EXPECT_EQ(one.status, 0) << one.err;
  const json answer = json::parse(one.out);
  EXPECT_EQ(classify({"xxx"}).out, one.out);
  EXPECT_EQ(answer["label"], "ex");
  EXPECT_NEAR(answer["probabilities"]["ex"].get<double>() + answer["probabilities"]["why"].get<double>(), 1,
              1e-9);
  std::string input;
  for (int i = 0; i < 100; ++i)
    input += i % 3 == 0 ? "yy\r\n" : i % 3 == 1 ? "{\"text\": \"xxx\"}\n" : "xxx\n";
  const GptRun many = classify({}, input);
  const std::vector<json> answers = lines_of(many.out);
  ASSERT_EQ(answers.size(), 100u) << many.err;
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i]["label"], i % 3 == 0 ? "why" : "ex") << i;
    if (i % 3 != 0) {
      EXPECT_EQ(answers[i], answer) << "the same bits beside others";
    }
  }
}

TEST_F(Classify, ABlankLineIsAnEmptyText) {
  const GptRun empty = classify({"--text", "", "--show-ids"});
  ASSERT_EQ(empty.status, 0) << empty.err;
  ASSERT_EQ(lines_of(empty.out).size(), 1u);
  EXPECT_EQ(lines_of(empty.out)[0]["ids"], json::parse("[[256, 258]]")) << "start and extract";
  const std::vector<json> answers = lines_of(classify({}, "xxx\n\nyy\n\r\n").out);
  ASSERT_EQ(answers.size(), 4u);
  const json label = lines_of(empty.out)[0]["probabilities"];
  EXPECT_EQ(answers[1]["probabilities"], label);
  EXPECT_EQ(answers[2]["label"], "why");
  EXPECT_EQ(answers[3]["probabilities"], label);
  std::ofstream(file("blank.txt")) << "xxx\n\nyy\n";
  std::ofstream(file("blank.csv")) << "text\nxxx\n\nyy\n";
  for (const char* name : {"blank.txt", "blank.csv"}) {
    const std::vector<json> of_file = lines_of(classify({"--data", file(name)}).out);
    ASSERT_EQ(of_file.size(), 3u) << name;
    EXPECT_EQ(of_file[1]["probabilities"], label) << name;
  }
}

TEST_F(Classify, SaysWhatALongTextLost) {
  const GptRun run = classify({"--text", std::string(100, 'x')});
  EXPECT_TRUE(names(run.err, {1, 32}));
}

TEST_F(Classify, ScoresInputsWithLabels) {
  const GptRun all = classify({"--data", file("letters.csv")});
  EXPECT_TRUE(names(all.err, {60, "accuracy 1.0000", "F1 1.0000", "Matthews 1.0000"}));
  const GptRun some = classify({},
                               "xx\n"
                               R"({"text": "xxx", "label": "ex"})"
                               "\n"
                               R"({"text": "yy", "label": "ex"})"
                               "\n"
                               R"({"text": "yy", "label": "why"})"
                               "\n"
                               R"({"text": "yy", "label": "zed"})"
                               "\n");
  EXPECT_EQ(lines_of(some.out).size(), 5u);
  // The F1 scores are 2/3 for ex, 1/2 for why and 0 for zed.
  EXPECT_TRUE(names(some.err, {4, "accuracy 0.5000", "F1 0.3889", "Matthews", 1, "input:5", "\"zed\""}));
  EXPECT_EQ(classify({"--text", "xx"}).err, "") << "no scores";
}

// The rows of predictions.csv match the output of gpt classify with the best model for the same texts.
TEST_F(Classify, SaysWhatEvaluationSaid) {
  std::istringstream predictions(content(file("run/predictions.csv")));
  std::istringstream table(content(file("letters.csv")));
  std::vector<std::string> texts;
  for (std::string line; std::getline(table, line);)
    texts.push_back(line.substr(0, line.find(',')));
  std::string line;
  std::getline(predictions, line);
  EXPECT_EQ(line, "example,label,prediction,p(ex),p(why)");
  int rows = 0;
  for (; std::getline(predictions, line); ++rows) {
    const size_t comma = line.find(','), colon = line.rfind(':', comma);
    const auto number = static_cast<size_t>(std::stoi(line.substr(colon + 1)));
    const json answer = json::parse(classify({"--text", texts[number - 1]}).out);
    EXPECT_EQ(line.substr(line.rfind(',', line.rfind(',') - 1) + 1),
              fmt::format("{:.6g},{:.6g}", answer["probabilities"]["ex"].get<double>(),
                          answer["probabilities"]["why"].get<double>()));
  }
  EXPECT_EQ(rows, 6);
}

TEST_F(Classify, TablesAndChoices) {
  const GptRun table = classify({"--data", file("letters.csv")});
  EXPECT_EQ(lines_of(table.out).size(), 60u) << table.err;
  const GptRun run = run_gpt({"finetune", file("base"), "--task", "choose", "--data", file("choices.jsonl"),
                              "--steps", "2", "--out", file("choose"), "--threads", "1"});
  ASSERT_EQ(run.status, 0) << run.err;
  const GptRun chosen = classify({},
                                 R"({"context": "a", "choices": ["b", "c", "d"]})"
                                 "\n",
                                 "choose/last");
  ASSERT_EQ(chosen.status, 0) << chosen.err;
  EXPECT_EQ(json::parse(chosen.out)["probabilities"].size(), 3u);
  EXPECT_TRUE(json::parse(chosen.out)["label"].is_number_integer());
  const GptRun plain = classify({}, "a line\n", "choose/last");
  EXPECT_EQ(plain.status, 1);
  EXPECT_TRUE(names(plain.err, {"input:1", "gpt finetune --task choose"}));
}

TEST_F(Classify, TheReportSaysHowToGoOn) {
  const std::string report = content(file("run/report.html"));
  EXPECT_TRUE(names(report, {"gpt classify " + file("run/best") + " --data",
                             "gpt finetune --resume --out " + file("run"), "aux_weight"}));
  EXPECT_FALSE(names(report, {"gpt train --resume"}));
  for (const char* of_others : {"rollouts", "reward", "lora_rank", "long_conversations"})
    EXPECT_EQ(report.find(of_others), std::string::npos) << of_others;
}

TEST_F(Classify, ConvertSaysThatTheHeadIsLeftOut) {
  for (const char* out : {"plain", "plain.gguf"}) {
    const GptRun run = run_gpt({"convert", file("run/best"), file(out)});
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.err, {"score.weight", file(out), "gpt classify", file("run/best")}));
    EXPECT_FALSE(names(run.err, {"buffer"}));
  }
}

// A fine-tuning run has labeled examples instead of the text that gpt eval evaluates by default.
TEST_F(Classify, EvalKnowsAFineTuningRun) {
  std::ofstream(file("more.txt")) << std::string(100, 'x');
  std::string rows;
  for (int i = 0; i < 20; ++i)
    rows += json{{"text", "row"}, {"label", i % 2}}.dump() + "\n";
  std::ofstream(file("rows.jsonl")) << rows;
  ASSERT_EQ(run_gpt({"finetune", file("base"), "--task", "classify", "--data", file("rows.jsonl"), "--steps",
                     "1", "--out", file("rows")})
                .status,
            0);
  expect_error(run_gpt({"eval", file("rows")}), 2, {file("rows"), "--task classify", "gpt classify --data"});
  const auto seen = [](const char* data) {
    const GptRun run = run_gpt({"eval", file("rows"), "--data", file(data), "--json"});
    EXPECT_EQ(run.status, 0) << run.err;
    const json result = json::parse(run.out);
    EXPECT_EQ(result["split"], "all");
    EXPECT_EQ(static_cast<bool>(names(run.err, {"note:", file(data)})),
              result["seen_in_training"].get<bool>())
        << run.err;
    return result["seen_in_training"].get<bool>();
  };
  EXPECT_TRUE(seen("rows.jsonl"));
  EXPECT_FALSE(seen("more.txt"));
}

TEST_F(Classify, ATextThatNamesAFileIsNoted) {
  const GptRun run = classify({"--text", file("letters.csv"), "--text", "xx"});
  EXPECT_EQ(lines_of(run.out).size(), 2u);
  EXPECT_TRUE(names(run.err, {"note:", file("letters.csv"), "--data"}));
  EXPECT_FALSE(names(classify({"xx"}).err, {"note:"}));
}

TEST_F(Classify, AResumedRunIsTheSame) {
  ASSERT_EQ(finetune("whole", {"--steps", "6"}).status, 0);
  ASSERT_EQ(finetune("parts", {"--steps", "6", "--stop-after", "3"}).status, 0);
  const GptRun rest = run_gpt({"finetune", "--resume", "--out", file("parts"), "--threads", "1"},
                              {"GPT_TASK=chat", "GPT_MODEL=other"});
  ASSERT_EQ(rest.status, 0) << rest.err;
  EXPECT_TRUE(names(rest.err, {"GPT_TASK=chat", "GPT_MODEL=other"})) << "which are not used";
  for (const char* name : {"model.safetensors", "task.json", "config.json", "train_state.safetensors"})
    EXPECT_TRUE(content(file("whole/last/") + name) == content(file("parts/last/") + name)) << name;
}

TEST_F(Classify, RefusesWhatCannotBe) {
  const auto expect = [](const GptRun& run, int status, const Facts& facts) {
    EXPECT_EQ(run.status, status) << run.err;
    EXPECT_TRUE(names(run.err, facts));
  };
  expect(classify({"--text", "x"}, "", "base"), 1,
         {file("base/best"), "task.json", "gpt finetune MODEL --task classify"});
  expect(classify({"--text", "x", "--data", "y"}), 2, {"--text", "--data"});
  const GptRun bad = classify({}, "xx\n{\"tekst\": 1}\nyy\n");
  expect(bad, 1, {"input:2", "\"text\""});
  EXPECT_EQ(lines_of(bad.out).size(), 1u) << "what came before is answered";
  const GptRun skipped = classify({"--skip-bad"}, "xx\n{\"tekst\": 1}\nyy\n");
  expect(skipped, 0, {1});
  ASSERT_EQ(lines_of(skipped.out).size(), 3u);
  EXPECT_TRUE(lines_of(skipped.out)[1].contains("error"));
  EXPECT_EQ(json::parse(classify({"--plain", "--text", "{x"}).out).size(), 2u);
  std::ofstream(file("bad.jsonl")) << "{\"text\": \"a\", \"label\": \"ex\"}\n{\"text\": \"a\"}\n";
  const Words task = {"--steps", "1", "--val-data", file("letters.csv")};
  const auto tune = [&](const char* name, const Words& more) {
    Words words = {"finetune", file("base"), "--task", "classify", "--data", file(name), "--out", file("x")};
    words.insert(words.end(), more.begin(), more.end());
    return run_gpt(words);
  };
  expect(tune("bad.jsonl", task), 1, {file("bad.jsonl:2"), "\"label\""});
  expect(tune("letters.csv", {"--labels", "ex", "zed"}), 1,
         {file("letters.csv:3"), "\"why\"", "\"ex\"", "\"zed\""});
  expect(tune("letters.csv", {"--class-weights", "ex"}), 2, {"--class-weights", "LABEL=NUMBER", "\"ex\""});
  expect(tune("letters.csv", {"--long-examples", "keep"}), 2, {"--long-examples", "\"keep\""});
}

}  // namespace
