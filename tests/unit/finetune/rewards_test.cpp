#include "finetune/rewards.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "base/file.h"
#include "finetune/child_process.h"
#include "support/error_of.h"
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
  EXPECT_NE(error_of([] { make_reward("number", "", 1)->check("many", "q.jsonl:3"); }).find("q.jsonl:3"),
            std::string::npos);
  EXPECT_NE(error_of([] { make_reward("regex", "", 1)->check("(", "q.jsonl:4"); })
                .find("q.jsonl:4: \"answer\": --reward regex takes it as a pattern, found \"(\": the regular "
                      "expression is not valid"),
            std::string::npos);
  EXPECT_NE(error_of([] { make_reward("exakt", "", 1); }).find("did you mean exact?"), std::string::npos);
  EXPECT_NE(error_of([] { make_reward("command", "", 1); }).find("reward_command"), std::string::npos);
  EXPECT_NE(error_of([] { make_reward("exact", "true", 1); }).find("only --reward command"),
            std::string::npos);
}

TEST(Rewards, OfACommand) {
  EXPECT_EQ(rewards("command", "a", "b", "cat >/dev/null; echo 0.5")[0], 0.5);
  const auto problem = [](const std::string& command) {
    return error_of([&] { rewards("command", "a", "b", command, 5); });
  };
  EXPECT_NE(problem("echo words").find("line 1: expected a number"), std::string::npos);
  EXPECT_NE(problem("echo nan").find("line 1: expected a number"), std::string::npos);
  EXPECT_NE(problem("true").find("expected 1 lines"), std::string::npos);
  EXPECT_NE(problem("echo 1; echo 2").find("found 2"), std::string::npos);
  EXPECT_NE(problem("exit 3").find("status 3"), std::string::npos);
  EXPECT_NE(error_of([] { run_command("sleep 60 & sleep 60", "x", 0.2); }).find("no answer in 0.2 s"),
            std::string::npos);
}

bool is_running(const std::string& pid) {
  return ::kill(std::stoi(pid), 0) == 0;
}

// In the background, in a session of its own, and as a daemon whose parents have ended.
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
  EXPECT_NE(error_of([] { run_command("kill -9 $$", "", 20); }).find("signal 9"), std::string::npos);
  EXPECT_NE(error_of([] { run_command("kill -ABRT $$", "", 20); }).find("signal 6"), std::string::npos);
  EXPECT_NE(error_of([] { run_command("exit 130", "", 20); }).find("status 130"), std::string::npos);
}

TEST(Rewards, ACommandIsGivenMuchAndGivesMuch) {
  const std::string input(1 << 20, 'x');
  EXPECT_EQ(run_command("cat", input, 20), input);
  EXPECT_EQ(run_command("exec <&-; echo done", input, 20), "done\n");
}

}  // namespace
}  // namespace gpt::test
