#include "report/table.h"

#include <gtest/gtest.h>

namespace gpt {
namespace {

TEST(Table, RecognizesNumbers) {
  for (const char* cell : {"1", "-1.5", "10,770,816", "3e-4", "+2", "87.3 %", "1.50 GiB", "12 tok/s", ".5",
                           "nan", "-", "?", "10.8 M"}) {
    EXPECT_TRUE(looks_numeric(cell)) << cell;
  }
  for (const char* cell : {"", "a1", "[256, 384]", "gpt2", "6 x 7", "12 of 14", "-x", "3 little pigs", "+"}) {
    EXPECT_FALSE(looks_numeric(cell)) << cell;
  }
}

TEST(Table, AlignsNumbersRightAndTextLeft) {
  const TextTable table{{"part", "parameters"}, {{"embedding", "98,304"}, {"mlp", "7,089,408"}}};
  EXPECT_EQ(format_table(table),
            "part       parameters\n"
            "---------  ----------\n"
            "embedding      98,304\n"
            "mlp         7,089,408\n");
}

TEST(Table, ShortRowsLongRowsAndWideCharacters) {
  const TextTable table{{"a", "b"}, {{"\u6f22"}, {"x", "y", "lost"}}};
  EXPECT_EQ(format_table(table), "a   b\n--  -\n\u6f22\nx   y\n");
}

TEST(Table, WithoutHeaderAndEmpty) {
  EXPECT_EQ(format_table({{}, {{"k", "1"}, {"long", "23"}}}), "k      1\nlong  23\n");
  EXPECT_EQ(format_table({}), "");
}

TEST(Table, CellsCannotSteerTheTerminal) {
  const std::string out = format_table({{}, {{"\x1b[2J\n"}}});
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_EQ(out.find('\n'), out.size() - 1);
}

}  // namespace
}  // namespace gpt
