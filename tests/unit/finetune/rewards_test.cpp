#include "finetune/rewards.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "base/file.h"
#include "finetune/child_process.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

std::vector<double> rewards(const std::string& name, const std::string& answer, const std::string& said,
                            const std::string& command = "", double seconds = 20) {
  const std::string prompt = "?";
  const std::vector<Judged> judged = {{prompt, answer, said}};
  return make_reward(name, command, seconds)->rewards(judged);
}

TEST(Rewards, JudgeAnswers) {
  EXPECT_EQ(rewards("exact", "Lena", " Lena\n")[0], 1);
  EXPECT_EQ(rewards("exact", "Lena", "Lena.")[0], 0);
  EXPECT_EQ(rewards("regex", "^(red|blue)$", "blue")[0], 1);
  EXPECT_EQ(rewards("regex", "^(red|blue)$", "bluer")[0], 0);
  EXPECT_EQ(rewards("number", "#### 1,200", "so it is 1200.0")[0], 1);
  EXPECT_EQ(rewards("number", "7", "no number")[0], 0);
}

TEST(Rewards, LastNumberOfAText) {
  const std::pair<const char*, const char*> cases[] = {
      {"a 12 b 007.50.", "7.5"}, {"-3", "-3"}, {"x-0", "0"}, {"1,234,567", "1234567"},
      {"0.250", "0.25"},         {"000", "0"}, {"none", ""}, {"5,", "5"},
      {"7 apples", "7"}};
  for (const auto& [text, number] : cases)
    EXPECT_EQ(last_number(text), number) << text;
}

TEST(Rewards, ExamplesThatCannotBeJudgedBy) {
  EXPECT_TRUE(refused([] { make_reward("number", "", 1)->check("many", "q.jsonl:3"); }, "q.jsonl:3",
                      {"\"answer\"", "`reward` number", "\"many\""}));
  EXPECT_TRUE(refused([] { make_reward("regex", "", 1)->check("(", "q.jsonl:4"); }, "q.jsonl:4",
                      {"\"answer\"", "`reward` regex", "\"(\""}));
  EXPECT_TRUE(refused_parameter([] { make_reward("exakt", "", 1); }, "reward", {"\"exakt\"", "exact"}));
  EXPECT_TRUE(refused_parameter([] { make_reward("command", "", 1); }, "reward_command"));
  EXPECT_TRUE(refused_parameter([] { make_reward("exact", "true", 1); }, "reward_command",
                                {"`reward` command", "`reward` exact"}));
}

TEST(Rewards, OfACommand) {
  EXPECT_EQ(rewards("command", "a", "b", "cat >/dev/null; echo 0.5")[0], 0.5);
  const auto problem = [](const std::string& command) {
    return error_of([&] { rewards("command", "a", "b", command, 5); });
  };
  EXPECT_TRUE(names(problem("echo words"), {1, "\"words\""}));
  EXPECT_TRUE(names(problem("echo nan"), {1, "\"nan\""}));
  EXPECT_EQ(rewards("command", "a", "b", "cat >/dev/null; echo -9e29")[0], -9e29);
  EXPECT_TRUE(names(problem("echo 1e30"), {1, "-1e30", "\"1e30\""}));
  EXPECT_TRUE(names(problem("echo -1e400"), {1, "-1e30", "\"-1e400\""}));
  EXPECT_TRUE(names(problem("kill -9 $$"), {9}));
  EXPECT_TRUE(names(problem("true"), {1, 0}));
  EXPECT_TRUE(names(problem("echo 1; echo 2"), {1, 2}));
  EXPECT_TRUE(names(problem("exit 3"), {3}));
  EXPECT_TRUE(names(error_of([] { run_command("sleep 60 & sleep 60", "x", 0.2); }), {"0.2 s"}));
}

bool is_running(const std::string& pid) {
  return ::kill(std::stoi(pid), 0) == 0;
}

// Starts processes in the background, in a separate session, and as a daemon whose parents have ended.
TEST(Rewards, NothingThatACommandStartsOutlivesIt) {
  for (const char* start :
       {"sleep 1000 & echo $!", "setsid sleep 1000 & echo $!",
        "sh -c 'setsid sleep 1000 >/dev/null & echo $!'",
        "(trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; sleep 1000 & echo $!; exit')"}) {
    const std::string pid = run_command(start, "", 20);
    EXPECT_FALSE(is_running(pid)) << start;
  }
  const TempDir dir;
  const std::string file = dir.file("pid");
  EXPECT_THROW(run_command("setsid sleep 1000 & echo $! > '" + file + "'; sleep 1000", "", 0.5), Error);
  EXPECT_FALSE(is_running(read_file(file)));
}

TEST(Rewards, TheStatusIsThatOfTheShell) {
  EXPECT_TRUE(names(error_of([] { run_command("kill -9 $$", "", 20); }), {9}));
  EXPECT_TRUE(names(error_of([] { run_command("kill -ABRT $$", "", 20); }), {6}));
  EXPECT_TRUE(names(error_of([] { run_command("exit 130", "", 20); }), {130}));
}

TEST(Rewards, ACommandIsGivenMuchAndGivesMuch) {
  const std::string input(1 << 20, 'x');
  EXPECT_EQ(run_command("cat", input, 20), input);
  EXPECT_EQ(run_command("exec <&-; echo done", input, 20), "done\n");
}

}  // namespace
}  // namespace gpt::test
