// gpt launch, and processes that end: nothing is lost, and what is said of it is true.

#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "gpt_process.h"
#include "mpi_runs.h"

namespace {

class Launch : public Mpi {};

// A process that stands still ends all others, by name, and the run goes on to the same model.
TEST_F(Launch, AStoppedProcessEndsTheRun) {
  succeeds(train("whole", {"--steps", "300"}));
  GptProcess run(launch(2, train("stopped", {"--steps", "300", "--save-every", "20"})),
                 [] { ::setenv("GPT_RANK_TIMEOUT", "3", 1); });
  ASSERT_TRUE(run.wait_for_file(path("stopped/last/train_state.json"))) << run.notes();
  const pid_t second = process_of(1, path("stopped"));
  ASSERT_GT(second, 0);
  ::kill(second, SIGSTOP);
  EXPECT_NE(run.end(), 0);
  EXPECT_NE(run.notes().find("rank 1 on "), std::string::npos) << run.notes();
  EXPECT_NE(run.notes().find("has given no sign of life"), std::string::npos) << run.notes();
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
  EXPECT_NE(run.notes().find("restart 1 of 1 goes on from step"), std::string::npos) << run.notes();
  expect_same("whole", "killed");
}

// A refusal is no crash: what was there before is not trained in its place.
TEST_F(Launch, ARestartTakesNoOtherRunForItsOwn) {
  succeeds(train("theirs", {"--steps", "10"}));
  const std::string before = gpt::read_file(path("theirs/last/model.safetensors"));
  const GptRun run =
      run_gpt(launch(2, train("theirs", {"--steps", "20", "--seed", "9"}), {"--restart", "2"}));
  EXPECT_NE(run.status, 0);
  EXPECT_NE(run.err.find("no restart: " + path("theirs") + " held a run before"), std::string::npos)
      << run.err;
  EXPECT_EQ(gpt::read_file(path("theirs/last/model.safetensors")), before);
}

// What a flag of a resumed run says of stopping and sharing holds behind a restart.
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
  EXPECT_NE(run.notes().find("restart 1 of 1"), std::string::npos) << run.notes();
  EXPECT_EQ(step_of("cut"), 200);
  EXPECT_EQ(nlohmann::json::parse(gpt::read_file(path("cut/config.json")))["zero"], 1);
}

// The same refusal again and again is no crash that another start helps against.
TEST_F(Launch, ARestartThatChangesNothingIsTheLast) {
  gpt::test::write_plain_file(path("few.txt"), "too little text");
  const GptRun run = run_gpt(launch(
      2, with_flags(train("none", {"--steps", "4"}), {"--data", path("few.txt")}), {"--restart", "9"}));
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_NE(run.err.find("restart 1 of 9 begins anew"), std::string::npos) << run.err;
  EXPECT_EQ(run.err.find("restart 2 of 9"), std::string::npos) << run.err;
  EXPECT_NE(run.err.find("no further restart: the run ended twice with status 1"), std::string::npos)
      << run.err;
  const GptRun negative = run_gpt(launch(2, train("none", {}), {"--restart", "-1"}));
  EXPECT_EQ(negative.status, 2);
  EXPECT_NE(negative.err.find("--restart: expected 0 or more new starts, found -1"), std::string::npos)
      << negative.err;
}

TEST_F(Launch, ACommandNeedsNoDashes) {
  Words words = {"launch", "-n", "2"};
  const Words command = train("plain", {"--steps", "4", "--stop-after", "2"});
  words.insert(words.end(), command.begin(), command.end());
  const GptRun run = run_gpt(words);
  EXPECT_EQ(run.status, 0) << run.err;
  const std::string way_on = "gpt launch -n 2 -- train --resume --out " + path("plain");
  EXPECT_NE(run.err.find("continue with: " + way_on), std::string::npos) << run.err;
  EXPECT_NE(gpt::read_file(path("plain/report.html")).find(way_on), std::string::npos);
  const GptRun alone = run_gpt({"launch", "-n", "2", "info", "gpt2"});
  EXPECT_EQ(alone.status, 2);
  EXPECT_NE(alone.err.find("found -- info"), std::string::npos) << alone.err;
  const GptRun unknown = run_gpt({"launch", "-np", "2", "--", "train"});
  EXPECT_NE(unknown.err.find("launch: unknown flag"), std::string::npos) << unknown.err;
}

// Whenever it comes: before mpirun runs, before the processes do, while they read their text.
TEST_F(Launch, ARequestToStopIsNeverLost) {
  for (int wait = 0; wait < 6; ++wait) {
    const std::string name = "asked" + std::to_string(wait);
    GptProcess run(launch(2, train(name, {"--steps", "1000000"})));
    ASSERT_TRUE(run.wait_until([&] { return has_child(run.pid()); })) << run.notes();
    ::usleep(static_cast<useconds_t>(30000 * wait));  // any moment will do
    run.send(wait % 2 == 0 ? SIGTERM : SIGUSR1);      // as a person or a batch system asks
    EXPECT_EQ(run.end(), 130) << run.notes();
  }
}

// mpirun ends all with SIGTERM when one has died.
TEST_F(Launch, NobodyPressedAnythingWhenAProcessDied) {
  GptProcess run(launch(2, train("died", {"--steps", "1000000", "--save-every", "20"})));
  ASSERT_TRUE(run.wait_for_file(path("died/last/train_state.json"))) << run.notes();
  ::kill(process_of(1, path("died")), SIGKILL);
  EXPECT_NE(run.end(), 0);
  EXPECT_EQ(run.notes().find("Ctrl-C again"), std::string::npos) << run.notes();
  EXPECT_NE(run.notes().find("launch: " + path("died") + " has step "), std::string::npos) << run.notes();
  EXPECT_NE(run.notes().find("; gpt launch -n 2 -- train --resume --out " + path("died")), std::string::npos)
      << run.notes();
}

TEST_F(Launch, CtrlCSavesAndStops) {
  succeeds(train("whole", {"--steps", "300"}));
  GptProcess run(launch(2, train("asked", {"--steps", "300", "--save-every", "20"})));
  ASSERT_TRUE(run.wait_for_file(path("asked/last/train_state.json"))) << run.notes();
  run.send(SIGINT);
  EXPECT_EQ(run.end(), 130) << run.notes();
  EXPECT_NE(run.notes().find("continue with: gpt launch -n 2 -- train --resume"), std::string::npos)
      << run.notes();
  succeeds(resume("asked"));
  expect_same("whole", "asked");
}

}  // namespace
