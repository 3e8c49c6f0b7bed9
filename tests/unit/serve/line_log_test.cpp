// Tests log lines that cannot be written, because the disk is full or the reader is too slow.

#include "serve/line_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt::serve {
namespace {

TEST(LineLog, AFullDiskIsSaidOnce) {
  std::vector<std::string> notes;
  {
    LineLog log("/dev/full", [&](const std::string& text) { notes.push_back(text); });
    for (int i = 0; i < 100; ++i)
      log.write("{}");
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_TRUE(test::names(notes[0], {"/dev/full", std::strerror(ENOSPC)}));
}

TEST(LineLog, EndsThoughNobodyReads) {
  const test::TempDir folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK);
  {
    LineLog log(path);
    for (int i = 0; i < 100; ++i)
      log.write(std::string(10000, 'x'));  // more than a pipe holds
  }
  ::close(reader);
}

TEST(LineLog, LinesComeWholeHoweverLongTheyAre) {
  const test::TempDir folder;
  const std::string path = folder.file("log");
  {
    LineLog log(path);
    log.write(std::string(100000, 'x'));
    log.write("end");
  }
  struct stat facts {};
  ASSERT_EQ(::stat(path.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_size, 100005);
}

}  // namespace
}  // namespace gpt::serve
