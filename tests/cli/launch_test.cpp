// Tests gpt launch and the failure of processes: no work is lost, and messages are accurate.

#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "gpt_process.h"
#include "mpi_runs.h"

namespace {

class Launch : public Mpi {};

// A rank that hangs ends the run with an error that names the rank. After resuming, the run gives the same
// model.
TEST_F(Launch, AStoppedProcessEndsTheRun) {
  succeeds(train("whole", {"--steps", "300"}));
  GptProcess run(launch(2, train("stopped", {"--steps", "300", "--save-every", "20"})),
                 [] { ::setenv("GPT_RANK_TIMEOUT", "3", 1); });
  ASSERT_TRUE(run.wait_for_file(path("stopped/last/train_state.json"))) << run.notes();
  const pid_t second = process_of(1, path("stopped"));
  ASSERT_GT(second, 0);
  ::kill(second, SIGSTOP);
  EXPECT_NE(run.end(), 0);
  EXPECT_TRUE(names(run.notes(), {"rank 1", "3 s", "GPT_RANK_TIMEOUT"}));
  succeeds(resume("stopped"));
  expect_same("whole", "stopped");
}

TEST_F(Launch, AKilledRunIsStartedAgain) {
  succeeds(train("whole", {"--steps", "300"}));
  GptProcess run(launch(2, train("killed", {"--steps", "300", "--save-every", "20"}), {"--restart", "1"}));
  ASSERT_TRUE(run.wait_for_file(path("killed/last/train_state.json"))) << run.notes();
  const pid_t second = process_of(1, path("killed"));
  ASSERT_GT(second, 0);
  ::kill(second, SIGKILL);
  EXPECT_EQ(run.end(), 0) << run.notes();
  EXPECT_TRUE(names(run.notes(), {"1 of 1"}));
  expect_same("whole", "killed");
}

// A refused command is not a crash. A refused command must not cause a restart, which would train the
// existing run instead.
TEST_F(Launch, ARestartTakesNoOtherRunForItsOwn) {
  succeeds(train("theirs", {"--steps", "10"}));
  const std::string before = gpt::read_file(path("theirs/last/model.safetensors"));
  const GptRun run =
      run_gpt(launch(2, train("theirs", {"--steps", "20", "--seed", "9"}), {"--restart", "2"}));
  EXPECT_EQ(run.status, 1);
  EXPECT_TRUE(names(run.err, {path("theirs"), "gpt launch"}));
  EXPECT_FALSE(names(run.err, {"1 of 2"})) << "no restart";
  EXPECT_EQ(gpt::read_file(path("theirs/last/model.safetensors")), before);
}

// A restart keeps the flags of a resumed run, such as --stop-after and --zero.
TEST_F(Launch, ARestartKeepsTheFlagsOfAResumedRun) {
  succeeds(train("cut", {"--steps", "400", "--stop-after", "10"}));
  GptProcess run(launch(
      2,
      {"train", "--resume", "--out", path("cut"), "--zero", "1", "--stop-after", "200", "--save-every", "20"},
      {"--restart", "1"}));
  ASSERT_TRUE(run.wait_until([&] { return step_of("cut") >= 40; })) << run.notes();
  const pid_t second = process_of(1, path("cut"));
  ASSERT_GT(second, 0);
  ::kill(second, SIGKILL);
  EXPECT_EQ(run.end(), 0) << run.notes();
  EXPECT_TRUE(names(run.notes(), {"1 of 1"}));
  EXPECT_EQ(step_of("cut"), 200);
  EXPECT_EQ(nlohmann::json::parse(gpt::read_file(path("cut/config.json")))["zero"], 1);
}

// If the same error occurs again after a restart, further restarts are pointless.
TEST_F(Launch, ARestartThatChangesNothingIsTheLast) {
  gpt::test::write_plain_file(path("few.txt"), "too little text");
  const GptRun run = run_gpt(launch(
      2, with_flags(train("none", {"--steps", "4"}), {"--data", path("few.txt")}), {"--restart", "9"}));
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_TRUE(names(run.err, {"1 of 9", "status 1"}));
  EXPECT_FALSE(names(run.err, {"2 of 9"}));
  const GptRun negative = run_gpt(launch(2, train("none", {}), {"--restart", "-1"}));
  EXPECT_EQ(negative.status, 2);
  EXPECT_TRUE(names(negative.err, {"--restart", 0, -1}));
}

TEST_F(Launch, ACommandNeedsNoDashes) {
  Words words = {"launch", "-n", "2"};
  const Words command = train("plain", {"--steps", "4", "--stop-after", "2"});
  words.insert(words.end(), command.begin(), command.end());
  const GptRun run = run_gpt(words);
  EXPECT_EQ(run.status, 0) << run.err;
  const std::string way_on = "gpt launch -n 2 -- train --resume --out " + path("plain");
  EXPECT_TRUE(names(run.err, {way_on}));
  EXPECT_TRUE(names(gpt::read_file(path("plain/report.html")), {way_on}));
  const GptRun alone = run_gpt({"launch", "-n", "2", "info", "gpt2"});
  EXPECT_EQ(alone.status, 2);
  EXPECT_TRUE(names(alone.err, {"launch", "-- info"}));
  const GptRun unknown = run_gpt({"launch", "-np", "2", "--", "train"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_TRUE(names(unknown.err, {"launch", "-np"}));
}

// The signal may arrive before mpirun starts, before the ranks start, or while they read their text.
TEST_F(Launch, ARequestToStopIsNeverLost) {
  for (int wait = 0; wait < 6; ++wait) {
    const std::string name = "asked" + std::to_string(wait);
    GptProcess run(launch(2, train(name, {"--steps", "1000000"})));
    ASSERT_TRUE(run.wait_until([&] { return has_child(run.pid()); })) << run.notes();
    ::usleep(static_cast<useconds_t>(30000 * wait));  // the exact delay does not matter
    run.send(wait % 2 == 0 ? SIGTERM : SIGUSR1);      // as sent by a user or a batch system
    EXPECT_EQ(run.end(), 130) << run.notes();
  }
}

// When a rank dies, mpirun sends SIGTERM to the other ranks. The other ranks must not report this as Ctrl-C.
TEST_F(Launch, NobodyPressedAnythingWhenAProcessDied) {
  GptProcess run(launch(2, train("died", {"--steps", "1000000", "--save-every", "20"})));
  ASSERT_TRUE(run.wait_for_file(path("died/last/train_state.json"))) << run.notes();
  ::kill(process_of(1, path("died")), SIGKILL);
  EXPECT_NE(run.end(), 0);
  EXPECT_EQ(run.notes().find("Ctrl-C again"), std::string::npos) << run.notes();
  EXPECT_TRUE(names(run.notes(), {path("died"), "gpt launch -n 2 -- train --resume --out " + path("died")}));
}

TEST_F(Launch, CtrlCSavesAndStops) {
  succeeds(train("whole", {"--steps", "300"}));
  GptProcess run(launch(2, train("asked", {"--steps", "300", "--save-every", "20"})));
  ASSERT_TRUE(run.wait_for_file(path("asked/last/train_state.json"))) << run.notes();
  run.send(SIGINT);
  EXPECT_EQ(run.end(), 130) << run.notes();
  EXPECT_TRUE(names(run.notes(), {"gpt launch -n 2 -- train --resume --out " + path("asked")}));
  succeeds(resume("asked"));
  expect_same("whole", "asked");
}

}  // namespace
