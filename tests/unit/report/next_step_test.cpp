#include "report/next_step.h"

#include <gtest/gtest.h>

#include "support/names.h"

namespace gpt {
namespace {

TEST(NextStep, QuotesWhatAShellWouldChange) {
  EXPECT_EQ(shell_quoted("runs/book-2"), "runs/book-2");
  EXPECT_EQ(shell_quoted("my run"), "'my run'");
  EXPECT_EQ(shell_quoted("it's"), R"('it'\''s')");
  EXPECT_EQ(shell_quoted("$HOME;ls"), "'$HOME;ls'");
  EXPECT_EQ(shell_quoted("~"), "'~'");
  EXPECT_EQ(shell_quoted(""), "''");
}

TEST(NextStep, IsOneLine) {
  const std::string line = next_line({"gpt", "generate", "my run", "Once upon"});
  EXPECT_TRUE(test::names(line, {"gpt generate 'my run' 'Once upon'"}));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

}  // namespace
}  // namespace gpt
