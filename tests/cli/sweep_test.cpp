// Tests gpt sweep: plans, runs, resuming and usage errors.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "run_gpt.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class SweepCommand : public testing::Test {
 protected:
  SweepCommand() : folder_(fs::path(testing::TempDir()) / ("sweep" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~SweepCommand() override { fs::remove_all(folder_); }

  std::string out() const { return folder_.string(); }
  static std::vector<std::string> base(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "sweep", "--data",         "tales:20000", "--n-head",  "2",  "--n-ctx",
        "16",    "--n-layer",      "1",           "--n-embd",  "16", "--batch-size",
        "2",     "--eval-batches", "1",           "--threads", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  json sweep_json() const { return json::parse(std::ifstream(folder_ / "sweep.json")); }

  fs::path folder_;
};

TEST_F(SweepCommand, DryRunPlansEqualFlops) {
  const GptRun run = run_gpt(base({"--over", "n_layer=1,2", "--over", "n_embd=16,32", "--flops", "1e9,2e9",
                                   "--seeds", "2", "--dry-run"}));
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.out, {"16 runs", "n_embd=16-n_layer=2-flops=1e+09-seed=2"}));
}

TEST_F(SweepCommand, SaysWhatARateDoesNotMove) {
  const auto expect_note = [&](const std::vector<std::string>& more, const std::string& object) {
    std::vector<std::string> words = base({"--steps", "8", "--dry-run"});
    words.insert(words.end(), more.begin(), more.end());
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 0) << run.err;
    if (object.empty()) {
      EXPECT_FALSE(names(run.err, {"lr"}));
    } else {
      EXPECT_TRUE(run.err.starts_with("note: " + object)) << run.err;
    }
  };
  const std::vector<std::string> rates = {"--over", "lr=1e-3,1e-2"},
                                 both = {"--over", "optimizer=adamw,muon-nanochat"};
  expect_note({both[0], both[1], "--lr", "1e-3"}, "--lr");
  expect_note({rates[0], rates[1], "--optimizer", "muon-nanochat"}, "--over lr");
  expect_note(rates, "");
  expect_note(both, "");
}

TEST_F(SweepCommand, RunsAndGoesOn) {
  const GptRun run =
      run_gpt(base({"--over", "n_layer=1,2", "--over", "lr=1e-3,1e-2", "--steps", "8", "--out", out()}));
  ASSERT_EQ(run.status, 0) << run.err;
  for (const char* name : {"sweep.json", "sweep.html", "sweep.svg", "runs/lr=1e-3-n_layer=2/report.html",
                           "runs/lr=1e-3-n_layer=2/last/model.safetensors"}) {
    EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  }
  const json before = sweep_json();
  ASSERT_EQ(before["runs"].size(), 4u);
  for (const json& entry : before["runs"])
    EXPECT_EQ(entry["state"], "done");
  const json& best = *std::ranges::min_element(
      before["runs"], {}, [](const json& entry) { return entry["val_loss"].get<double>(); });
  const std::string name = best["name"];
  EXPECT_TRUE(names(run.out.substr(run.out.rfind("\n\n")), {name, "lr", "n_layer"})) << "is recommended";
  EXPECT_TRUE(names(run.err, {"gpt generate " + out() + "/runs/" + name}));
  // A deleted run is repeated with the same loss. The other runs do not change.
  const auto kept = fs::last_write_time(folder_ / "runs/lr=1e-3-n_layer=1/config.json");
  fs::remove_all(folder_ / "runs/lr=1e-3-n_layer=2");
  const GptRun again = run_gpt({"sweep", "--out", out(), "--resume"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(fs::last_write_time(folder_ / "runs/lr=1e-3-n_layer=1/config.json"), kept);
  const json after = sweep_json();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(after["runs"][i]["val_loss"], before["runs"][i]["val_loss"]);
}

TEST_F(SweepCommand, MixesNoTexts) {
  fs::create_directories(folder_);
  const std::string text = (folder_ / "text.txt").string();
  const auto write = [&](const char* word) {
    std::ofstream file(text);
    for (int i = 0; i < 2000; ++i)
      file << word << " " << i << "\n";
  };
  write("one");
  std::vector<std::string> words = base({"--over", "lr=1e-3,1e-2", "--steps", "8", "--out", out() + "/s"});
  words[2] = text;
  ASSERT_EQ(run_gpt(words).status, 0);
  fs::remove_all(folder_ / "s/runs/lr=1e-2");
  write("two");
  const std::vector<std::string> resume = {"sweep", "--out", out() + "/s", "--resume"};
  const GptRun other = run_gpt(resume);
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(names(other.err, {out() + "/s/runs/lr=1e-3", "data_hash"}));
  EXPECT_FALSE(fs::exists(folder_ / "s/runs/lr=1e-2"));
  write("one");
  EXPECT_EQ(run_gpt(resume).status, 0);
  write("two");
  EXPECT_EQ(run_gpt(resume).status, 0) << "nothing is left to train";
}

// If a run of a sweep was killed before its first checkpoint, the run is repeated.
TEST_F(SweepCommand, RepeatsARunThatHasOnlyABestModel) {
  const auto words = base({"--over", "lr=1e-3,1e-2", "--steps", "8", "--out", out()});
  ASSERT_EQ(run_gpt(words).status, 0);
  const json before = sweep_json();
  fs::remove_all(folder_ / "runs/lr=1e-2/last");
  ASSERT_TRUE(fs::exists(folder_ / "runs/lr=1e-2/best"));
  const GptRun again = run_gpt({"sweep", "--out", out(), "--resume"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(sweep_json()["runs"][1]["val_loss"], before["runs"][1]["val_loss"]);
}

TEST_F(SweepCommand, MistakesAreNamed) {
  const std::vector<std::pair<std::vector<std::string>, Facts>> cases = {
      {{"--out", "x"}, {"--over"}},
      {{"--over", "n_layer=1,2"}, {"--out"}},
      {{"--over", "n_leyer=1,2", "--dry-run"}, {"--over", "\"n_leyer\"", "n_layer"}},
      {{"--over", "steps=1,2", "--dry-run"}, {"--over", "steps", "--flops", "--minutes", "--seeds"}},
      {{"--over", "n_layer=one", "--dry-run"}, {"--over n_layer", "\"one\""}},
      {{"--over", "n_layer=1", "--flops", "x", "--dry-run"}, {"--flops", "\"x\""}},
      {{"--over", "n_layer=1", "--flops", "1e9", "--minutes", "1", "--dry-run"},
       {"--flops", "--minutes", "--steps"}},
      {{"--over", "n_layer=1", "--levels", "2", "--dry-run"}, {"--levels", "--minutes", "--flops"}},
      {{"--over", "n_layer=1", "--val-fraction", "0", "--dry-run"}, {"--val-data", "--val-fraction"}}};
  for (const auto& [more, facts] : cases) {
    const GptRun run = run_gpt(base(more));
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_TRUE(names(run.err, facts));
  }
  EXPECT_EQ(run_gpt({"sweep", "--out", out(), "--resume", "--over", "lr=1"}).status, 2);
  EXPECT_EQ(run_gpt({"sweep", "--out", out(), "--resume"}).status, 1);
  fs::create_directories(folder_);
  for (const char* text :
       {"", "[]", "{\"runs\": []}", "{\"runs\": [1]}", "{\"runs\": [{\"name\": \"../x\"}]}"}) {
    std::ofstream(folder_ / "sweep.json") << text;
    EXPECT_EQ(run_gpt({"sweep", "--out", out(), "--resume"}).status, 1) << text;
  }
}

}  // namespace
