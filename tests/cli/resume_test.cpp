// Tests gpt train --resume: bit-identical continuation, detection of changes, more or fewer steps, signals
// and full disks.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "gpt_process.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Words = std::vector<std::string>;

class Resume : public testing::Test {
 protected:
  Resume() {
    std::string text;
    for (int i = 0; i < 400; ++i)
      text += "line " + std::to_string(i * i) + " of some text to learn\n";
    gpt::test::write_plain_file(text_, text);
  }

  Words train(const std::string& name, const Words& more) const {
    Words words = {"train", "--data",         text_, "--tokenizer", "byte",    "--n-layer",
                   "1",     "--n-head",       "2",   "--n-embd",    "16",      "--n-ctx",
                   "16",    "--batch-size",   "2",   "--threads",   "1",       "--warmup",
                   "5",     "--eval-batches", "2",   "--out",       path(name)};
    return with_flags(words, more);
  }
  GptRun resume(const std::string& name, const Words& more = {}, const Words& environment = {}) const {
    Words words = {"train", "--resume", "--out", path(name)};
    words.insert(words.end(), more.begin(), more.end());
    return run_gpt(words, environment);
  }
  // Starts a run that receives signals at a fault point, such as "train.step:2=TERM" (base/fault_point.h).
  GptRun make_until(const std::string& fault, const std::string& name, const Words& more) const {
    return run_gpt(train(name, more), {"GPT_FAULT_POINT=" + fault});
  }
  void make(const std::string& name, const Words& more) const {
    const GptRun run = run_gpt(train(name, more));
    ASSERT_EQ(run.status, 0) << run.err;
  }
  std::string path(const std::string& name) const { return dir_.file(name); }
  std::string weights(const std::string& name) const {
    return gpt::read_file(path(name) + "/last/model.safetensors");
  }
  json json_of(const std::string& file) const { return json::parse(gpt::read_file(path(file))); }
  void write_json(const std::string& file, const json& value) const {
    gpt::test::write_plain_file(path(file), value.dump(2));
  }
  // Returns the values of a key in metrics.jsonl by step.
  std::map<int, double> metric(const std::string& name, const std::string& key) const {
    std::map<int, double> out;
    std::ifstream file(path(name) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      const json record = json::parse(line, nullptr, false);  // the last line may be incomplete
      if (record.is_object() && record.contains(key))
        out[record["step"].get<int>()] = record[key].get<double>();
    }
    return out;
  }
  // Removes the checksum of a checkpoint file, so that the test can change the file.
  void forget_checksum(const std::string& name, const std::string& file) const {
    json manifest = json_of(name + "/last/manifest.json");
    manifest["files"].erase(file);
    write_json(name + "/last/manifest.json", manifest);
  }
  void expect_refused(const GptRun& run, const Facts& facts) const {
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_TRUE(names(run.err, facts));
  }

  gpt::test::TempDir dir_;
  std::string text_ = dir_.file("text.txt");
};

TEST_F(Resume, NoticesDataOfEqualLength) {
  make("run", {"--steps", "8", "--stop-after", "3"});
  std::string text = gpt::read_file(text_);
  std::swap(text[10], text[11]);
  gpt::test::write_plain_file(text_, text);
  expect_refused(resume("run"), {"data_hash", "--init-from"});
  std::swap(text[10], text[11]);
  std::swap(text[text.size() - 4], text[text.size() - 5]);  // in the held-out part
  gpt::test::write_plain_file(text_, text);
  expect_refused(resume("run"), {"val_data_hash", "--init-from"});
  std::swap(text[text.size() - 4], text[text.size() - 5]);
  // The path of the text does not matter.
  gpt::test::write_plain_file(path("moved.txt"), text);
  fs::remove(text_);
  json config = json_of("run/config.json");
  config["data"] = {path("moved.txt")};
  write_json("run/config.json", config);
  const GptRun run = resume("run");
  EXPECT_EQ(run.status, 0) << run.err;
}

TEST_F(Resume, NoticesOtherFilesOfTheCheckpointAndAnotherConfig) {
  make("run", {"--steps", "8", "--stop-after", "3"});
  const std::string tokenizer = path("run/last/tokenizer.json"), before = gpt::read_file(tokenizer);
  gpt::test::write_plain_file(tokenizer, before + "\n");
  expect_refused(resume("run"), {tokenizer, before.size(), before.size() + 1});
  gpt::test::write_plain_file(tokenizer, before);
  const json config = json_of("run/config.json");
  for (const auto& [key, value] : {std::pair<const char*, json>{"beta1", 0.8},
                                   {"lr", 1e-2},
                                   {"seed", 2},
                                   {"n_embd", 32},
                                   {"val_fraction", 0.2},
                                   {"batch_size", 4}}) {
    json changed = config;
    changed[key] = value;
    write_json("run/config.json", changed);
    expect_refused(resume("run"), {path("run/config.json"), key, config[key].dump(), value.dump()});
  }
  json quieter = config;
  quieter["log_every"] = 1;
  write_json("run/config.json", quieter);
  EXPECT_EQ(resume("run").status, 0);
}

// data_hash only covers samples of a long text. data_ids_hash also detects changes between the samples, but
// older runs only have data_hash.
TEST_F(Resume, NoticesASmallChangeOfALongText) {
  std::string text;
  while (text.size() < 36 << 20)
    text += "line " + std::to_string(text.size()) + " of a long text\n";
  gpt::test::write_plain_file(text_, text);
  make("run", {"--steps", "8", "--stop-after", "6", "--eval-every", "0"});
  text[100000] ^= 1;  // samples of 2^16 begin every 33 M / 255 tokens
  gpt::test::write_plain_file(text_, text);
  expect_refused(resume("run"), {"data_ids_hash", "--init-from"});
  json state = json_of("run/last/train_state.json");
  for (const char* key : {"data_sizes_hash", "data_ids_hash", "data_folder"})
    EXPECT_EQ(state.erase(key), 1u) << key;
  write_json("run/last/train_state.json", state);
  forget_checksum("run", "train_state.json");
  const GptRun run = resume("run");
  EXPECT_EQ(run.status, 0) << run.err;
}

// Checkpoints of older versions have no hashes and no config in their state.
TEST_F(Resume, GoesOnWithRunsOfEarlierVersions) {
  make("whole", {"--steps", "8"});
  make("run", {"--steps", "8", "--stop-after", "3"});
  json state = json_of("run/last/train_state.json");
  for (const char* key : {"data_hash", "val_data_hash", "tokenizer_hash", "data_sizes_hash", "data_ids_hash",
                          "data_folder", "config", "pending"})
    EXPECT_EQ(state.erase(key), 1u) << key;
  write_json("run/last/train_state.json", state);
  forget_checksum("run", "train_state.json");
  const GptRun run = resume("run");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(weights("run"), weights("whole"));
}

TEST_F(Resume, WithMoreStepsHasTheirSchedule) {
  make("long", {"--steps", "24", "--log-every", "1"});
  make("run", {"--steps", "12", "--log-every", "1"});
  const auto with = [&](const char* variable) { return resume("run", {}, {variable}); };
  for (const auto& [variable, value] :
       {std::pair{"GPT_STEPS", "24"}, {"GPT_LR", "0.5"}, {"GPT_DROPOUT", "0.25"}}) {
    const GptRun other = with((std::string(variable) + "=" + value).c_str());
    EXPECT_EQ(other.status, 0) << other.err;
    EXPECT_TRUE(names(other.err, {variable, value}));
  }
  EXPECT_EQ(json_of("run/config.json")["steps"], 12) << "the environment extends no run";
  EXPECT_FALSE(names(with("GPT_BATCH_SIZE=2").err, {"GPT_BATCH_SIZE"})) << "the run's own value";
  expect_refused(resume("run", {"--steps", "11"}), {path("run"), 12, "--steps", 11});
  const GptRun run = resume("run", {"--steps", "24", "--stop-after", "18"});
  EXPECT_EQ(run.status, 0) << run.err;
  const Facts rises = {"step 12", 24, "4.34e-05", "0.000219"};  // the learning rate after step 12
  EXPECT_TRUE(names(run.err, rises));
  const GptRun rest = resume("run");  // the config of the run now has 24 steps
  EXPECT_EQ(rest.status, 0) << rest.err;
  EXPECT_FALSE(names(rest.err, {"step 12"}));
  const std::map<int, double> rates = metric("run", "lr"), planned = metric("long", "lr");
  ASSERT_EQ(rates.size(), 24u);
  for (int step = 13; step <= 24; ++step)
    EXPECT_EQ(rates.at(step), planned.at(step)) << step;
  EXPECT_EQ(json_of("run/plan.json")["steps"], json_of("long/plan.json")["steps"]);
}

// A kill between writing the new config.json and the next checkpoint loses nothing.
TEST_F(Resume, ExtendedAndKilledAtOnce) {
  make("run", {"--steps", "12"});
  make("same", {"--steps", "12"});
  EXPECT_EQ(resume("same", {"--steps", "24"}).status, 0);
  json config = json_of("run/config.json");
  config["steps"] = 24;
  write_json("run/config.json", config);
  const GptRun run = resume("run");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.err, {"step 12", "24 steps"}));
  EXPECT_EQ(weights("run"), weights("same"));
}

TEST_F(Resume, WithFewerStepsEndsEarlier) {
  make("run", {"--steps", "100", "--stop-after", "10"});
  const GptRun run = resume("run", {"--steps", "20"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.err, {100, "20 steps"}));
  EXPECT_EQ(json_of("run/last/train_state.json")["step"], 20);
}

TEST_F(Resume, TheLastStepIsInTheMetrics) {
  make("run", {"--steps", "40", "--log-every", "7", "--stop-after", "17", "--eval-every", "0"});
  std::map<int, double> losses = metric("run", "loss");
  EXPECT_EQ(losses.rbegin()->first, 17);
  EXPECT_EQ(resume("run").status, 0);
  losses = metric("run", "loss");
  EXPECT_EQ(losses.rbegin()->first, 40);
}

// Both the total norm and the norms of parts are those of the gradient before --clip-value clips its
// elements.
TEST_F(Resume, TheGradientNormIsThatBeforeClipping) {
  const Words same = {"--steps", "1", "--warmup", "0", "--eval-every", "1", "--clip-norm", "0"};
  make("free", same);
  Words clipped = same;
  clipped.insert(clipped.end(), {"--clip-value", "1e-6"});
  make("clipped", clipped);
  EXPECT_GT(metric("free", "grad_norm").at(1), 0.1);
  for (const char* key : {"grad_norm", "grad_norm/block 0"})
    EXPECT_EQ(metric("clipped", key), metric("free", key)) << key;
}

class ResumeAfterSignal : public Resume, public testing::WithParamInterface<const char*> {};

TEST_P(ResumeAfterSignal, SavesAndGives130) {
  const std::string signal = GetParam();
  make("whole", {"--steps", "8"});
  // Two signals that arrive together are one request. `timeout` and a closing terminal send two signals.
  const GptRun run = make_until("train.step:3=" + signal + "+" + signal, "run", {"--steps", "8"});
  EXPECT_EQ(run.status, 130) << run.err;
  EXPECT_EQ(json_of("run/last/train_state.json")["step"], 3);
  EXPECT_EQ(resume("run").status, 0);
  EXPECT_EQ(weights("run"), weights("whole"));
}

INSTANTIATE_TEST_SUITE_P(Signals, ResumeAfterSignal, testing::Values("INT", "TERM", "HUP"));

// A kill at any point of saving leaves a complete checkpoint, from which the resumed run gives the same
// model.
TEST_F(Resume, AKillWhileSavingLosesNothing) {
  const Words steps = {"--steps", "8", "--save-every", "3", "--eval-every", "4"};
  make("whole", steps);
  for (const char* place :
       {"save.begin", "save.synced:2", "save.sealed", "save.replaced", "save.discard:2"}) {
    Words stopped = steps;
    stopped.insert(stopped.end(), {"--stop-after", "2"});
    make("run", stopped);
    EXPECT_EQ(resume("run", {}, {std::string("GPT_FAULT_POINT=") + place}).status, -1) << place;
    const GptRun rest = resume("run");
    EXPECT_EQ(rest.status, 0) << place << rest.err;
    EXPECT_EQ(weights("run"), weights("whole")) << place;
    EXPECT_EQ(metric("run", "val_loss"), metric("whole", "val_loss")) << place;
    fs::remove_all(path("run"));
  }
}

// The token that precedes documents is the end-of-text token in config.json of the model, also after
// resuming.
TEST_F(Resume, KnowsTheTokenThatEndsAText) {
  const std::string rows = dir_.file("rows.jsonl");
  std::string lines;
  for (int i = 0; i < 50; ++i)
    lines += json{{"text", "row " + std::to_string(i) + " of some documents"}}.dump() + "\n";
  gpt::test::write_plain_file(rows, lines);
  ASSERT_EQ(run_gpt({"tokenizer", "train", rows, "--vocab-size", "260", "--out", path("tok")}).status, 0);
  const Words tokenizer = {"--steps", "4", "--tokenizer", path("tok"), "--eval-every", "0"};
  for (const auto& [text, begins] : {std::pair(rows, true), {text_, false}}) {
    fs::remove_all(path("run"));
    Words words = train("run", tokenizer);
    words[2] = text;
    words.insert(words.end(), {"--stop-after", "2"});
    ASSERT_EQ(run_gpt(words).status, 0);
    const json stopped = json_of("run/last/config.json");
    EXPECT_EQ(stopped["eos_token_id"], 259);
    EXPECT_EQ(stopped["bos_token_id"], begins ? json(259) : json());
    ASSERT_EQ(resume("run", {"--stop-after", "0"}).status, 0);
    EXPECT_EQ(json_of("run/last/config.json"), stopped);
    ASSERT_EQ(run_gpt({"train", "--init-from", path("run"), "--data", text, "--steps", "1", "--eval-every",
                       "0", "--warmup", "0", "--out", path("more")})
                  .status,
              0);
    EXPECT_EQ(json_of("more/last/config.json"), stopped);
    fs::remove_all(path("more"));
  }
}

// Access to a truncated memory-mapped file would cause SIGBUS.
TEST_F(Resume, AShardCutShortWhileTrainingIsNamed) {
  std::string text = "no end of it\n";
  while (text.size() < 1 << 20)
    text += text;
  gpt::test::write_plain_file(text_, text);
  const GptRun pack = run_gpt({"data", "pack", text_, "--tokenizer", "byte", "--out", path("shards")});
  ASSERT_EQ(pack.status, 0) << pack.err;
  GptProcess gpt({"train",        "--data",  path("shards"), "--tokenizer", "byte",
                  "--n-layer",    "1",       "--n-head",     "2",           "--n-embd",
                  "16",           "--n-ctx", "16",           "--steps",     "100000000",
                  "--eval-every", "0",       "--save-every", "50",          "--out",
                  path("run")});
  ASSERT_TRUE(gpt.wait_for_file(path("run/last/manifest.json"))) << gpt.notes();
  for (const auto& file : fs::directory_iterator(path("shards"))) {
    if (file.path().extension() == ".bin") fs::resize_file(file.path(), 0);
  }
  EXPECT_EQ(gpt.end(), 1) << gpt.notes();
  EXPECT_TRUE(names(gpt.notes(), {"gpt", path("shards/shard-00000.bin")}));
}

TEST_F(Resume, ASignalWhileSettingUpGives130) {
  const GptRun run = make_until("train.setup=TERM", "run", {"--steps", "8"});
  EXPECT_EQ(run.status, 130) << run.err;
  EXPECT_FALSE(fs::exists(path("run/last")));
}

TEST_F(Resume, ASweepSavesAndGives130) {
  Words sweep = {"sweep", "--over", "lr=1e-3,2e-3", "--steps", "8"};
  const Words shape = {"--data",    text_, "--tokenizer",    "byte", "--n-layer", "1",
                       "--n-head",  "2",   "--n-embd",       "16",   "--n-ctx",   "16",
                       "--threads", "1",   "--eval-batches", "2",    "--out",     path("sweep")};
  sweep.insert(sweep.end(), shape.begin(), shape.end());
  const GptRun run = run_gpt(sweep, {"GPT_FAULT_POINT=train.step:3=HUP"});
  EXPECT_EQ(run.status, 130) << run.err;
  EXPECT_EQ(json_of("sweep/runs/lr=1e-3/last/train_state.json")["step"], 3);
  EXPECT_FALSE(fs::exists(path("sweep/runs/lr=2e-3")));
}

TEST_F(Resume, NohupStaysAsItIs) {
  ::setenv("GPT_FAULT_POINT", "train.step:3=HUP", 1);
  GptProcess gpt(train("run", {"--steps", "8"}), [] { ::signal(SIGHUP, SIG_IGN); });
  ::unsetenv("GPT_FAULT_POINT");
  EXPECT_EQ(gpt.end(), 0) << gpt.notes();
  EXPECT_EQ(json_of("run/last/train_state.json")["step"], 8);
}

// An interrupted evaluation is repeated when the run resumes. The results equal those of an uninterrupted
// run.
TEST_F(Resume, InterruptsAnEvaluationAndMakesItLater) {
  const Words steps = {"--steps", "3", "--eval-every", "2", "--eval-batches", "8"};
  const GptRun run = make_until("train.evaluation:3=TERM", "run", steps);
  EXPECT_EQ(run.status, 130) << run.err;
  const json state = json_of("run/last/train_state.json");
  EXPECT_EQ(state["step"], 2);
  EXPECT_EQ(state["pending"], "evaluation");
  EXPECT_TRUE(metric("run", "val_loss").empty());
  const GptRun rest = resume("run");
  EXPECT_EQ(rest.status, 0) << rest.err;
  make("whole", steps);
  EXPECT_EQ(metric("run", "val_loss"), metric("whole", "val_loss"));
  EXPECT_EQ(weights("run"), weights("whole"));
}

// A limit on the file size makes writes of a checkpoint fail, which simulates a full disk.
TEST_F(Resume, AFullDiskLeavesTheOldCheckpoint) {
  make("whole", {"--steps", "8", "--eval-every", "0"});
  make("run", {"--steps", "8", "--stop-after", "3", "--eval-every", "0"});
  const std::string before = weights("run");
  GptProcess gpt({"train", "--resume", "--out", path("run")}, [] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(127);
  });
  EXPECT_EQ(gpt.end(), 1);
  EXPECT_TRUE(names(gpt.notes(), {"model.safetensors", path("run/last"), "step 3"}));
  EXPECT_EQ(weights("run"), before);
  for (const auto& entry : fs::directory_iterator(path("run")))
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
  const GptRun rest = resume("run");
  EXPECT_EQ(rest.status, 0) << rest.err;
  EXPECT_EQ(weights("run"), weights("whole"));
}

// A signal ends gpt data pack and gpt tokenizer train cleanly in the middle of their work.
TEST_F(Resume, PackAndTokenizerTrainingEndCleanly) {
  std::string text;
  while (text.size() < 12 << 20)
    text += "some words " + std::to_string(text.size()) + " and more of them\n";
  gpt::test::write_plain_file(path("big.txt"), text);
  const Words pack = {"data",      "pack", "--data",         path("big.txt"), "--tokenizer", "byte",
                      "--threads", "1",    "--shard-tokens", "1000000",       "--out",       path("shards")};
  const Words learn = {"tokenizer", "train", "--data", path("big.txt"),
                       "--threads", "1",     "--out",  path("tok")};
  for (const auto& [words, fault, out] :
       {std::tuple{pack, "pack.progress:1=TERM", "shards"}, {learn, "tokenizer.count:1=TERM", "tok"}}) {
    const GptRun run = run_gpt(words, {std::string("GPT_FAULT_POINT=") + fault});
    EXPECT_EQ(run.status, 130) << run.err;
    EXPECT_FALSE(fs::exists(path(out) + "/.lock"));
  }
  EXPECT_FALSE(fs::exists(path("tok")));
  EXPECT_TRUE(fs::exists(path("shards/shard-00001.bin")));
  const GptRun rest = run_gpt(pack);
  EXPECT_EQ(rest.status, 0) << rest.err;
  Words whole = pack;
  whole.back() = path("whole");
  EXPECT_EQ(run_gpt(whole).status, 0);
  for (const auto& entry : fs::directory_iterator(path("whole"))) {
    const std::string name = entry.path().filename().string();
    EXPECT_EQ(gpt::read_file(path("shards/" + name)), gpt::read_file(path("whole/" + name))) << name;
  }
}

// A run that was killed before its first checkpoint can be replaced, unless it has a best model.
TEST_F(Resume, ANewRunReplacesNoBestModelAndNoFileOfOthers) {
  for (const char* every : {"2", "0"}) {
    const Words words = {"--steps", "8", "--save-every", "0", "--log-every", "1", "--eval-every", every};
    EXPECT_EQ(make_until("train.step:3", "run", words).status, -1);
    const std::string log = gpt::read_file(path("run/metrics.jsonl"));
    const GptRun again = run_gpt(train("run", {"--steps", "6"}));
    EXPECT_EQ(again.status, *every == '2' ? 1 : 0) << again.err;
    const auto is_events = [](const fs::directory_entry& entry) {
      return entry.path().filename().string().starts_with("events.out.tfevents");
    };
    EXPECT_EQ(std::count_if(fs::directory_iterator(path("run")), {}, is_events), 1) << "of one run";
    if (*every == '2') {
      EXPECT_TRUE(names(again.err, {path("run"), "--init-from " + path("run/best")}));
      EXPECT_EQ(gpt::read_file(path("run/metrics.jsonl")), log);
    }
    fs::remove_all(path("run"));
  }
  for (const std::string name : {"report.html", "metrics.jsonl", "loss.svg", "plan.json", "best/a",
                                 "config.json", "adapter_config.json", "adapter_model.safetensors"}) {
    fs::create_directories(path("mine/best"));
    if (name != "best/a") fs::remove(path("mine/best"));
    gpt::test::write_plain_file(path("mine/" + name), "{}\n");
    const std::string in_the_way = name == "config.json" || name.starts_with("adapter")
                                       ? path("mine")
                                       : path("mine/" + name.substr(0, name.find('/')));
    expect_refused(run_gpt(train("mine", {"--steps", "6"})), {in_the_way});
    EXPECT_EQ(gpt::read_file(path("mine/" + name)), "{}\n");
    fs::remove_all(path("mine"));
  }
}

// Relative paths of the data refer to the working directory in which the run was started, even if it is
// resumed several times from other folders.
TEST_F(Resume, FindsItsDataFromAnyFolder) {
  struct Inside {
    explicit Inside(const std::string& folder) : before(fs::current_path()) { fs::current_path(folder); }
    ~Inside() { fs::current_path(before); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    fs::path before;
  };
  fs::create_directories(path("begun/texts"));
  fs::create_directory(path("elsewhere"));
  fs::copy(text_, path("begun/texts/a.txt"));
  const auto in = [&](const std::string& folder, const Words& words) {
    const Inside inside(path(folder));
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 0) << run.err;
  };
  for (const std::string data : {"texts", "texts/a.txt", "texts/*.txt"}) {
    Words words = train("run", {"--steps", "6"});
    words[2] = data;
    words.insert(words.end(), {"--stop-after", "2"});
    in("begun", words);
    for (const char* stop : {"4", "6"})
      in("elsewhere", {"train", "--resume", "--out", path("run"), "--stop-after", stop});
    EXPECT_EQ(json_of("run/last/train_state.json")["step"], 6);
    EXPECT_EQ(json_of("run/last/train_state.json")["data_folder"], path("begun"));
    fs::remove_all(path("run"));
  }
}

// A run must not be created in the folder of its training data. When it resumes, its files would hide the
// data or be read as data.
TEST_F(Resume, ARunIsNotMadeAmongItsData) {
  fs::create_directories(path("texts/more"));
  fs::copy(text_, path("texts/a.txt"));
  gpt::test::write_plain_file(path("texts/more/b.jsonl"), "{\"text\":\"more\"}\n");
  const auto made = [&](const std::string& data, const std::string& out) {
    Words words = train(out, {"--steps", "4"});
    words[2] = path(data);
    return run_gpt(words);
  };
  expect_refused(made("texts", "texts"), {path("texts"), "--out"});
  expect_refused(made("texts/*", "texts"), {path("texts/*"), "--out"});
  expect_refused(made("texts/*/*.jsonl", "texts/run"), {path("texts/*/*.jsonl"), "--out"});
  EXPECT_FALSE(fs::exists(path("texts/config.json")));
  EXPECT_EQ(made("texts", "texts/run").status, 0);
  expect_refused(run_gpt({"data", "pack", path("texts"), "--tokenizer", "byte", "--out", path("texts")}),
                 {path("texts"), "--out"});
  const Words sweep = {"sweep",        path("texts"), "--over",      "n_layer=1,2", "--steps",   "2",
                       "--n-embd",     "16",          "--n-head",    "2",           "--n-ctx",   "16",
                       "--batch-size", "2",           "--tokenizer", "byte",        "--threads", "1",
                       "--out"};
  Words inside = sweep, same = sweep;
  same.push_back(path("texts"));
  expect_refused(run_gpt(same), {path("texts"), "--out"});
  inside.push_back(path("texts/sweep"));
  const GptRun swept = run_gpt(inside);
  EXPECT_EQ(swept.status, 0) << swept.err;
  EXPECT_EQ(made("texts", "after").status, 0);
  EXPECT_EQ(json_of("after/last/train_state.json")["data_train"],
            json_of("texts/run/last/train_state.json")["data_train"]);
}

// A kill may lose the checkpoint of the step that best/ belongs to. The resumed run keeps this best model and
// otherwise matches a run without a kill.
TEST_F(Resume, KeepsABetterBestModelThanTheCheckpointKnows) {
  const Words same = {"--steps", "40", "--eval-every", "4", "--lr", "3e-3"};
  Words stopped = same;
  stopped.insert(stopped.end(), {"--stop-after", "8"});
  make("run", stopped);
  make("later", same);
  fs::remove_all(path("run/best"));
  fs::copy(path("later/best"), path("run/best"));  // the state after a kill at step 40
  const json best = json_of("run/best/train_best.json");
  ASSERT_GT(best["step"], 12);
  const GptRun run = resume("run", {"--steps", "12"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.err, {"best/", "step " + std::to_string(best["step"].get<int>()), "step 8"}));
  EXPECT_EQ(json_of("run/best/train_best.json"), best);
  EXPECT_EQ(gpt::read_file(path("run/best/model.safetensors")),
            gpt::read_file(path("later/best/model.safetensors")));
  EXPECT_EQ(json_of("run/last/train_state.json")["best_step"], 12) << "what it knows itself";
  EXPECT_EQ(metric("run", "val_loss").size(), 3u);
}

// The final loss is from the last step, or the message says from which step it is.
TEST_F(Resume, ShortenedToTheStepsDoneIsEvaluated) {
  const Words stopped = {"--steps", "100", "--eval-every", "8", "--stop-after", "12"};
  for (const char* every : {"8", "0"}) {
    make("run", stopped);
    ASSERT_EQ(metric("run", "val_loss").count(12), 0u);
    const GptRun run = resume("run", {"--steps", "12", "--eval-every", every});
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(metric("run", "val_loss").count(12), *every == '8' ? 1u : 0u);
    EXPECT_EQ(bool{names(run.err, {"step 8"})}, *every != '8') << run.err;
    fs::remove_all(path("run"));
  }
}

TEST_F(Resume, ARunWithoutACheckpointSaysSo) {
  GptProcess gpt(train("run", {"--steps", "100000000", "--save-every", "0", "--eval-every", "0"}));
  ASSERT_TRUE(gpt.wait_for_note("step ")) << gpt.notes();
  for (const Words& words : {Words{"generate", path("run"), "--prompt", "A"},
                             {"eval", path("run"), "--data", text_},
                             {"info", path("run")},
                             {"trace", path("run"), "--prompt", "A"},
                             {"convert", path("run"), path("out.gguf")}}) {
    expect_refused(run_gpt(words), {path("run"), "--save-every", "gpt train"});
  }
}

}  // namespace
