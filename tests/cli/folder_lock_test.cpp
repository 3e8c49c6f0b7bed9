// Tests processes that write to the same folder. The second process is refused and changes nothing.

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/folder_lock.h"
#include "gpt_process.h"
#include "run_gpt.h"

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class TwoProcesses : public testing::Test {
 protected:
  TwoProcesses() : folder_(fs::path(testing::TempDir()) / ("lock" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~TwoProcesses() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static Words with(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Words shape() {
    return {"--data",       "tales:20000", "--n-layer", "1",  "--n-head",     "2",
            "--n-embd",     "16",          "--n-ctx",   "16", "--batch-size", "2",
            "--eval-every", "0",           "--threads", "1",  "--warmup",     "0"};
  }
  Words train(const std::string& out) const {
    return with(with({"train"}, shape()), {"--steps", "100000000", "--save-every", "1", "--out", path(out)});
  }
  // Runs a second process and checks that it is refused because of the first.
  static void expect_refused(const GptProcess& first, const Words& second, const std::string& what) {
    const GptRun run = run_gpt(second);
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_TRUE(names(run.err, {what, first.pid()}));
  }

  fs::path folder_;
};

TEST_F(TwoProcesses, TrainingsOfOneFolder) {
  GptProcess first(train("run"));
  ASSERT_TRUE(first.wait_for_file(path("run/last"))) << first.notes();
  expect_refused(first, train("run"), path("run"));
  expect_refused(first, {"train", "--out", path("run"), "--resume"}, path("run"));
  expect_refused(first, with(with({"plan"}, shape()), {"--out", path("run")}), path("run"));
  first.send(SIGKILL);
  first.end();
  // A killed process leaves its lock file, which does not block the next process.
  EXPECT_TRUE(fs::exists(path("run/.lock")));
  GptProcess second({"train", "--out", path("run"), "--resume"});
  ASSERT_TRUE(second.wait_for_note("step ")) << second.notes();
  expect_refused(second, {"train", "--out", path("run"), "--resume"}, path("run"));
  second.send(SIGINT);
  EXPECT_EQ(second.end(), 130) << second.notes();
  EXPECT_FALSE(fs::exists(path("run/.lock")));
}

// In this test, the test process itself holds the lock.
TEST_F(TwoProcesses, EveryCommandThatFillsAFolder) {
  std::ofstream(path("a.txt")) << "some text\n";
  const Words sweep = {"sweep",        "--data",  "tales:20000", "--preset", "tiny",   "--over",
                       "lr=1e-3,2e-3", "--steps", "1",           "--out",    path("s")};
  const Words pack = {"data", "pack", "--data", path("a.txt"), "--tokenizer", "byte", "--out"};
  const Words learn = {"tokenizer", "train", "--data", path("a.txt"), "--vocab-size", "300", "--out"};
  const auto refused = [&](const Words& words, const std::string& out) {
    const GptRun run = run_gpt(words);
    EXPECT_EQ(run.status, 1) << run.err;
    EXPECT_TRUE(names(run.err, {path(out), ::getpid()}));
  };
  const auto nothing = [](std::string_view) {};
  const auto sweep_lock = gpt::FolderLock::of_folder(path("s"), nothing);
  refused(sweep, "s");
  refused({"sweep", "--out", path("s"), "--resume"}, "s");
  const auto shards = gpt::FolderLock::of_folder(path("shards"), nothing);
  refused(with(pack, {path("shards")}), "shards");
  const auto shard = gpt::FolderLock::of_file(path("one.bin"), nothing);
  refused(with(pack, {path("one.bin")}), "one.bin");
  const auto tokenizer = gpt::FolderLock::of_folder(path("tok"), nothing);
  refused(with(learn, {path("tok")}), "tok");
  const auto file = gpt::FolderLock::of_file(path("tok.json"), nothing);
  refused(with(learn, {path("tok.json")}), "tok.json");
  const auto plan = gpt::FolderLock::of_folder(path("run"), nothing);
  refused({"plan", "--preset", "tiny", "--data", "tales:20000", "--out", path("run")}, "run");
}

// gpt train can resume a run of a sweep, so each run has its own lock.
TEST_F(TwoProcesses, ARunInsideASweep) {
  const std::vector<std::string> sweep = {"sweep",        "--preset", "tiny",   "--n-layer",   "1",
                                          "--n-embd",     "16",       "--data", "tales:20000", "--over",
                                          "lr=1e-3,2e-3", "--steps",  "1",      "--out",       path("s")};
  ASSERT_EQ(run_gpt(sweep).status, 0);
  std::filesystem::remove_all(path("s/runs/lr=1e-3"));
  const auto lock = gpt::FolderLock::of_folder(path("s/runs/lr=1e-3"), [](std::string_view) {});
  const GptRun run = run_gpt({"sweep", "--resume", "--out", path("s")});
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(names(run.err, {path("s/runs/lr=1e-3"), ::getpid()}));
}

}  // namespace
