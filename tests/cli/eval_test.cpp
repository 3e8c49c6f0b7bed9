// Tests gpt eval: which part of a text it evaluates, and that its results match the evaluation during
// training.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

class Evaluation : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return dir_.file(name); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }
  static std::string bytes_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  static std::string tales(int bytes, int seed) {
    return run_gpt({"data", "tales", "--bytes", std::to_string(bytes), "--seed", std::to_string(seed)}).out;
  }
  GptRun train(const Words& data, const Words& more = {}) const {
    Words words = {"train", "--n-layer",    "1",   "--n-head", "1", "--n-embd", "8", "--n-ctx",
                   "16",    "--batch-size", "2",   "--steps",  "4", "--warmup", "0", "--threads",
                   "1",     "--out",        run(), "--data"};
    words.insert(words.end(), data.begin(), data.end());
    const GptRun done = run_gpt(with_flags(words, more));
    EXPECT_EQ(done.status, 0) << done.err;
    return done;
  }
  std::string run() const { return file("run"); }
  std::vector<json> metrics() const {
    std::vector<json> records;
    std::ifstream in(run() + "/metrics.jsonl");
    for (std::string line; std::getline(in, line);)
      records.push_back(json::parse(line));
    return records;
  }
  json state() const { return json::parse(std::ifstream(run() + "/last/train_state.json")); }

  gpt::test::TempDir dir_;
};

json eval(const std::string& model, const Words& more, std::string* note = nullptr) {
  Words words = {"eval", model, "--json", "--threads", "1"};
  words.insert(words.end(), more.begin(), more.end());
  const GptRun run = run_gpt(words);
  EXPECT_EQ(run.status, 0) << run.err;
  if (note != nullptr) *note = run.err;
  return run.status == 0 ? json::parse(run.out) : json::object();
}

// Checks the split and the number of predicted tokens, which is one less than the number of tokens.
void expect_part(const json& result, const std::string& split, int64_t tokens, bool trained) {
  EXPECT_EQ(result["split"], split);
  EXPECT_EQ(result["tokens"], tokens - 1);
  EXPECT_EQ(result["trained_on"], trained);
}

TEST_F(Evaluation, OfWhatARunWasTrainedOnIsOfItsHeldOutPart) {
  const std::string text = tales(20000, 3), book = write("book.txt", text), copy = write("copy.txt", text);
  train({book}, {"--val-fraction", "0.2", "--eval-every", "4", "--eval-batches", "1000"});
  for (const std::string& model : {run(), run() + "/", run() + "/best", run() + "/last/model.safetensors"}) {
    expect_part(eval(model, {}), "val", 4000, true);
    std::string note;
    expect_part(eval(model, {"--data", book}, &note), "val", 4000, true);
    EXPECT_TRUE(names(note, {book, 4000, 20000, "--split all"}));
  }
  expect_part(eval(run(), {"--data", copy}), "val", 4000, true);
  expect_part(eval(run(), {"--data", fs::path(book).parent_path().string() + "/./book.txt"}), "val", 4000,
              true);
  expect_part(eval(run(), {"--data", book, "--split", "all"}), "all", 20000, true);
  expect_part(eval(run(), {"--split", "train"}), "train", 16000, true);
  const auto seen = [&](const Words& words) { return eval(run(), words)["seen_in_training"].get<bool>(); };
  EXPECT_FALSE(seen({}));
  EXPECT_FALSE(seen({"--data", write("unseen.txt", tales(20000, 4))}));
  EXPECT_TRUE(seen({"--split", "all"}));
  EXPECT_TRUE(seen({"--split", "train"}));
  EXPECT_TRUE(seen({"--val-fraction", "0.3"}));
  expect_part(eval(run(), {"--data", write("other.txt", tales(20000, 4))}), "all", 20000, false);
  // Training evaluates windows at random positions, and gpt eval all windows in order. The text is the same,
  // so the losses are nearly equal.
  const double held_out = eval(run(), {})["loss"];
  for (const json& record : metrics()) {
    if (!record.contains("val_loss")) continue;
    EXPECT_NEAR(record["val_loss"].get<double>() / held_out, 1, 0.01);
  }
}

// The loss that training reports for all held-out text equals the loss that gpt eval reports for the same
// models.
TEST_F(Evaluation, TheTrainerEvaluatesTheWholeHeldOutTextAtTheEnd) {
  for (const char* dtype : {"fp32", "bf16"}) {
    fs::remove_all(run());
    // The learning rate rises until the loss increases, so that the best model is not the last one.
    train({"tales:6000"}, {"--steps", "60", "--warmup", "60", "--lr", "8", "--schedule", "constant",
                           "--eval-every", "5", "--eval-batches", "4", "--dtype", dtype});
    const json last = metrics().back();
    ASSERT_TRUE(last.contains("whole_val_loss")) << last;
    EXPECT_EQ(last["step"], 60);
    EXPECT_EQ(last["val_tokens"], 599);
    EXPECT_EQ(last["whole_val_tokens"], 599);
    EXPECT_EQ(eval(run() + "/last", {"--dtype", dtype})["loss"], last["whole_val_loss"]);
    ASSERT_NE(state()["best_step"], 60);
    EXPECT_EQ(eval(run() + "/best", {"--dtype", dtype})["loss"], last["whole_val_loss_best"]);
    EXPECT_EQ(eval(run(), {"--dtype", dtype})["loss"], last["whole_val_loss_best"])
        << "a run is its best model";
  }
}

TEST_F(Evaluation, TheWholeIsEvaluatedOnceAlsoAfterAStop) {
  const Words words = {"--steps", "6", "--eval-every", "3", "--eval-batches", "1"};
  train({"tales:2000"}, words);
  const json whole = metrics().back();
  fs::remove_all(run());
  Words stopped = words;
  stopped.insert(stopped.end(), {"--stop-after", "3"});
  train({"tales:2000"}, stopped);
  EXPECT_FALSE(metrics().back().contains("whole_val_loss")) << "the run is not at its end";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_gpt({"train", "--resume", "--out", run()}).status, 0);
    EXPECT_EQ(metrics().back(), whole);
  }
  const auto records = metrics();
  EXPECT_EQ(std::ranges::count_if(records, [](const json& r) { return r.contains("whole_val_loss"); }), 1);
}

// Evaluates at most as many tokens as the run was trained on: 4 steps of 2 x 16.
TEST_F(Evaluation, OfLargeHeldOutTextTheBeginningIsTaken) {
  train({"tales:40000"}, {"--eval-every", "4", "--eval-batches", "1"});
  const json last = metrics().back();
  EXPECT_EQ(last["whole_val_tokens"], 128);
  EXPECT_EQ(last["val_tokens"], 3999);
  const json again = eval(run() + "/last", {"--limit", "128"});
  EXPECT_EQ(again["tokens"], 128);
  EXPECT_EQ(again["loss"], last["whole_val_loss"]);
}

// Checks the model first, then the text.
TEST_F(Evaluation, OfTheFieldThatTheRunWasTrainedOn) {
  const auto rows = [](const std::string& text) {
    std::string lines;
    for (int i = 0; i < 40; ++i)
      lines += json{{"text", "x"}, {"story", text + std::to_string(i)}}.dump() + "\n";
    return lines;
  };
  const std::string data = write("a.jsonl", rows("once upon a time ")),
                    other = write("b.jsonl", rows("there was "));
  train({data}, {"--field", "story"});
  EXPECT_EQ(json::parse(std::ifstream(run() + "/config.json"))["field"], "story");
  EXPECT_EQ(eval(run(), {})["trained_on"], true);
  EXPECT_EQ(eval(run(), {"--data", data})["trained_on"], true);
  std::string once, twice;
  eval(run(), {"--data", data}, &once);
  EXPECT_EQ(eval(run(), {"--data", data, data}, &twice)["trained_on"], true);
  EXPECT_GT(std::ranges::count(twice, '\n'), std::ranges::count(once, '\n')) << "that it counts once";
  EXPECT_EQ(eval(run(), {"--data", data, "--field", "text"})["trained_on"], false);
  EXPECT_EQ(eval(run(), {"--data", other})["text_bytes"], 40 * 10 + 10 + 2 * 30 - 1);
  EXPECT_EQ(eval(run(), {"--data", other, "--field", "text"})["text_bytes"], 39);
}

TEST_F(Evaluation, RefusesFlagsOfTheOtherKind) {
  const std::string book = write("book.txt", tales(2000, 1)), task = write("task.yaml", "task: t\n");
  train({book});
  const std::vector<Words> of_tasks = {{"--html", file("x.html")},
                                       {"--log-samples", file("x")},
                                       {"--few-shot", "2"},
                                       {"--data-dir", file("")}};
  for (const Words& flag : of_tasks)
    expect_error(run_gpt(with_flags({"eval", run(), "--data", book}, flag)), 2, {flag[0], "--tasks"});
  const std::vector<Words> of_text = {{"--stride", "4"},
                                      {"--split", "val"},
                                      {"--field", "t"},
                                      {"--val-fraction", "0.2"},
                                      {"--include", "*.py"}};
  for (const Words& flag : of_text)
    expect_error(run_gpt(with_flags({"eval", run(), "--tasks", task}, flag)), 2, {flag[0], "--tasks"});
}

TEST_F(Evaluation, SaysWhatIsMissing) {
  const GptRun none = run_gpt({"eval", "nosuch"});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(names(none.err, {"nosuch"}));
  train({write("book.txt", tales(20000, 3))}, {});
  const std::string moved = fs::path(run()).parent_path() / "moved";
  fs::copy(run() + "/last", moved);
  const GptRun model = run_gpt({"eval", moved});
  EXPECT_EQ(model.status, 2);
  EXPECT_TRUE(names(model.err, {"--data"}));
}

TEST_F(Evaluation, KnowsTheTextOfARunAfterItWasMoved) {
  const std::string book = write("book.txt", tales(20000, 3));
  train({book}, {"--val-fraction", "0.2"});
  fs::rename(book, file("moved.txt"));
  std::string note;
  expect_part(eval(run(), {"--data", file("moved.txt")}, &note), "val", 4000, true);
  EXPECT_TRUE(names(note, {file("moved.txt"), 4000, 20000, "--split all"}));
  expect_part(eval(run(), {"--data", write("other.txt", tales(20000, 4))}), "all", 20000, false);
}

// The path is not sufficient to identify the text: the checkpoint also records its content.
TEST_F(Evaluation, NoticesThatTheTextIsAnother) {
  const std::string book = write("book.txt", tales(20000, 3));
  train({book}, {"--val-fraction", "0.2"});
  write("book.txt", tales(20000, 4));
  std::string note;
  for (const Words& data : {Words{}, Words{"--data", book}}) {
    expect_part(eval(run(), data, &note), "all", 20000, false);
    EXPECT_TRUE(names(note, {"note:", book}));
    EXPECT_FALSE(names(note, {4000})) << "nothing is held out of it";
  }
  expect_part(eval(run(), {"--data", write("copy.txt", tales(20000, 3))}), "val", 4000, true);
  write("book.txt", tales(20000, 3).replace(19990, 3, "XYZ"));
  expect_part(eval(run(), {}, &note), "val", 4000, true);
  EXPECT_TRUE(names(note, {"note:", book}));
}

TEST_F(Evaluation, SaysWhatAnotherFractionIs) {
  const std::string book = write("book.txt", tales(20000, 3));
  train({book}, {"--val-fraction", "0.2"});
  std::string note;
  expect_part(eval(run(), {"--val-fraction", "0.5"}, &note), "val", 10000, true);
  EXPECT_TRUE(names(note, {"note:", book, "0.2", 10000, 20000, "--val-fraction 0.5"}));
  expect_part(eval(run(), {"--val-fraction", "0.1"}, &note), "val", 2000, true);
  EXPECT_TRUE(names(note, {book, "0.2", 2000, 20000, "--val-fraction 0.1"}));
  EXPECT_FALSE(names(note, {"note:"})) << "none of it was trained on";
  expect_part(eval(run(), {"--val-fraction", "0"}, &note), "all", 20000, true);
  EXPECT_TRUE(names(note, {"note:", book, "0.2", "--val-fraction 0"}));
}

// The text is also recognized if it is compressed, if it is a JSON row, and from a different working
// directory.
TEST_F(Evaluation, KnowsTheTextInOtherForms) {
  const std::string text = tales(20000, 3), here = fs::current_path().string();
  fs::current_path(fs::path(write("book.txt", text)).parent_path());
  train({"book.txt"}, {"--val-fraction", "0.2"});
  fs::current_path(here);
  expect_part(eval(run(), {}), "val", 4000, true);
  expect_part(eval(run(), {"--data", file("book.txt")}), "val", 4000, true);
  const std::string row = write("row.jsonl", json{{"text", text}}.dump() + "\n");
  expect_part(eval(run(), {"--data", row}), "val", 4000, true);
  ASSERT_EQ(std::system(("gzip -kc " + file("book.txt") + " > " + file("book.txt.gz")).c_str()), 0);
  expect_part(eval(run(), {"--data", file("book.txt.gz")}), "val", 4000, true);
}

TEST_F(Evaluation, OfDamagedShardsIsNone) {
  train({"tales:20000"});
  const std::string book = write("book.txt", tales(20000, 3)), shards = file("shards");
  ASSERT_EQ(run_gpt({"data", "pack", book, "--tokenizer", "byte", "--shard-tokens", "5000", "--out", shards})
                .status,
            0);
  expect_part(eval(run(), {"--data", shards}), "all", 20000, false);
  const auto flip = [&](const std::string& name) {
    std::string bytes = bytes_of(shards + name);
    bytes[bytes.size() - 2] ^= 1;  // the low byte of an id
    std::ofstream(shards + name, std::ios::binary) << bytes;
  };
  flip("/shard-00001.bin");
  const GptRun damaged = run_gpt({"eval", run(), "--data", shards, "--threads", "1"});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_EQ(damaged.out, "");
  EXPECT_TRUE(names(damaged.err, {shards + "/shard-00001.bin"}));
  expect_part(eval(run(), {"--data", shards, "--split", "val"}), "val", 2000,
              false);  // the damaged shard is not in this split
  flip("/shard-00003.bin");
  EXPECT_EQ(run_gpt({"eval", run(), "--data", shards, "--split", "val", "--threads", "1"}).status, 1);
}

TEST_F(Evaluation, KnowsTalesByBytesAndSeed) {
  train({"tales:20000"}, {"--seed", "5"});
  expect_part(eval(run(), {}), "val", 2000, true);
  expect_part(eval(run(), {"--data", "tales:20000", "--seed", "5"}), "val", 2000, true);
  expect_part(eval(run(), {"--data", "tales:20000", "--seed", "6"}), "all", 20000, false);
  expect_part(eval(run(), {"--data", write("t.txt", tales(20000, 5))}), "val", 2000, true);
  std::string note;
  expect_part(eval(run(), {"--data", "tales:5000", "--seed", "5"}, &note), "all", 5000, false);
  EXPECT_TRUE(names(note, {"note:", "tales:5000"})) << "it begins with what the run was trained on";
}

TEST_F(Evaluation, KnowsValidationTextAndParts) {
  const std::string a = write("a.txt", tales(10000, 1)), b = write("b.txt", tales(8000, 2));
  train({a}, {"--val-data", b});
  expect_part(eval(run(), {}), "val", 8000, true);
  expect_part(eval(run(), {"--data", b}), "all", 8000, false);
  fs::remove_all(run());
  train({a, b});
  expect_part(eval(run(), {"--data", b, a}), "val", 1800, true);
  std::string note;
  expect_part(eval(run(), {"--data", b}, &note), "all", 8000, false);
  EXPECT_TRUE(names(note, {"note:", b}));
  fs::remove_all(run());
  train({a + "=0.5", b + "=0.5"});  // each file has its own split
  expect_part(eval(run(), {"--data", b}), "val", 800, true);
  expect_part(eval(run(), {}, &note), "val", 1800, true);
  EXPECT_TRUE(names(note, {1800, 18000}));
  fs::remove_all(run());
  train({a}, {"--val-fraction", "0"});
  expect_part(eval(run(), {}, &note), "all", 10000, true);
  EXPECT_TRUE(names(note, {"note:", a}));
}

TEST_F(Evaluation, OfBothTextsChangesNothingInTheTraining) {
  const Words plain = {"--dropout", "0.1", "--eval-every", "2", "--eval-batches", "3"};
  train({"tales:20000"}, plain);
  const std::string weights = bytes_of(run() + "/last/model.safetensors");
  fs::remove_all(run());
  Words both = plain;
  both.emplace_back("--eval-train");
  const GptRun done = train({"tales:20000"}, both);
  EXPECT_EQ(bytes_of(run() + "/last/model.safetensors"), weights);
  EXPECT_TRUE(names(done.err, {"step 0", "lr 0.000300"}));
  std::vector<int64_t> steps;
  for (const json& record : metrics()) {
    if (!record.contains("train_loss")) continue;
    steps.push_back(record["step"]);
    EXPECT_TRUE(record.contains("val_loss"));
    if (steps.back() > 0) continue;
    EXPECT_NEAR(record["train_loss"].get<double>(), std::log(256), 0.3) << "nothing is learned yet";
  }
  EXPECT_EQ(steps, (std::vector<int64_t>{0, 2, 4}));
  EXPECT_TRUE(names(bytes_of(run() + "/report.html"), {"\"train_loss\""}));
}

TEST_F(Evaluation, EndsTheRunWhenPatienceIsOver) {
  // With a learning rate of 0 the loss does not improve. The best step is 2, and two evaluations follow.
  const Words words = {"--steps",        "100", "--lr",       "0", "--eval-every", "2",
                       "--eval-batches", "1",   "--patience", "2"};
  const GptRun whole = train({"tales:20000"}, words);
  EXPECT_TRUE(names(whole.err, {"step 100", 2, "gpt train --resume --out " + run() + " --patience 0"}));
  EXPECT_EQ(state()["step"], 6);
  EXPECT_EQ(state()["best_step"], 2);
  EXPECT_TRUE(names(bytes_of(run() + "/report.html"), {"step 6"}));
  fs::remove_all(run());
  Words stopped = words;
  stopped.insert(stopped.end(), {"--stop-after", "5"});
  train({"tales:20000"}, stopped);
  EXPECT_EQ(state()["step"], 5);
  const Words resume = {"train", "--resume", "--out", run()};
  EXPECT_EQ(run_gpt(resume).status, 0);
  EXPECT_EQ(state()["step"], 6);
  EXPECT_EQ(state()["stale_evaluations"], 2);
  EXPECT_EQ(run_gpt(resume).status, 0);
  EXPECT_EQ(state()["step"], 6) << "it has ended";
  Words further = resume;
  further.insert(further.end(), {"--patience", "0", "--stop-after", "9"});
  EXPECT_EQ(run_gpt(further).status, 0);
  EXPECT_EQ(state()["step"], 9);
  EXPECT_EQ(run_gpt({"train", "--data", "tales:20000", "--n-layer", "1", "--eval-every", "0", "--patience",
                     "2", "--out", file("other")})
                .status,
            2);
}

TEST_F(Evaluation, StartIsFiveLinesAndNotes) {
  const GptRun quiet = train({"tales:20000"}, {"--steps", "1", "--warmup", "1"});
  const Words beginnings = {"data: ", "model: ", "cost: ", "intervals: ", "out: "};
  std::istringstream lines(quiet.err);
  std::string line;
  for (const std::string& beginning : beginnings) {
    ASSERT_TRUE(std::getline(lines, line));
    EXPECT_TRUE(line.starts_with(beginning)) << line;
  }
  while (std::getline(lines, line) && line.starts_with("note: ")) {
  }
  EXPECT_TRUE(names(line, {"step 1/1"}));
  fs::remove_all(run());
  const GptRun verbose = train({"tales:20000"}, {"--verbose"});
  EXPECT_TRUE(names(verbose.err, {"corpus", "x [2, 16]", "weight_decay 0.1", "AdamW", "machine", "data"}));
}

}  // namespace
