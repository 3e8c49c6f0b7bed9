#include "report/next_step.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(next_line({"gpt", "generate", "my run", "Once upon"}),
            "next: gpt generate 'my run' 'Once upon'\n");
}

}  // namespace
}  // namespace gpt
