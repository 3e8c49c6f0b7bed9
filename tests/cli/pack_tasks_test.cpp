// Tests an array job of gpt data pack with eight tasks and a merge. Three tasks are killed halfway and
// repeated.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/folder_lock.h"
#include "gpt_process.h"
#include "run_gpt.h"
#include "support/temp_dir.h"

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Files = std::map<std::string, std::string>;

class PackTasks : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.file(name); }

  // Writes JSON lines: nine blocks of 1 MiB, followed by five blocks that consist of one longer line each.
  // TaskShare assigns these long lines to tasks 2, 5, 7, 4 and 1 of eight, after a block of the usual size.
  void write_text() {
    std::string text;
    const std::string line(1000, 'a');
    for (int block = 0; block < 9; ++block) {
      std::string lines;
      for (int i = 0; lines.size() + 1100 < kBlock; ++i)
        lines += "{\"text\":\"" + line + std::to_string(block * 10000 + i) + "\"}\n";
      const std::string begin = "{\"text\":\"", end = "\"}\n";
      lines += begin + std::string(kBlock - lines.size() - begin.size() - end.size(), 'b') + end;
      text += lines;
    }
    for (int i = 0; i < 5; ++i)
      text += "{\"text\":\"" + std::string(kBlock + kBlock / 2, static_cast<char>('c' + i)) + "\"}\n";
    gpt::test::write_plain_file(path("a.jsonl"), text);
  }

  Words pack(const std::string& out, const Words& more = {}) const {
    Words words = {"data",    "pack",      "--data", path("a.jsonl"), "--tokenizer", "byte", "--shard-tokens",
                   "1000000", "--threads", "1",      "--out",         path(out)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Runs the program with a limit on the file size. The system kills it when it writes a larger file.
  int run_and_kill(const Words& words, rlim_t bytes) const {
    GptProcess gpt(words, [bytes] {
      const rlimit limit{bytes, bytes}, none{0, 0};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0 || ::setrlimit(RLIMIT_CORE, &none) != 0) ::_exit(127);
    });
    return gpt.end();
  }
  static Files contents(const std::string& folder) {
    Files files;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      files[fs::relative(entry.path(), folder).string()] =
          entry.is_regular_file() ? gpt::read_file(entry.path().string()) : "folder";
    return files;
  }
  static constexpr size_t kBlock = size_t{1} << 20;  // PackOptions::block_bytes
  gpt::test::TempDir folder_;
};

TEST_F(PackTasks, KilledAndRepeatedTheyGiveTheBytesOfOne) {
  write_text();
  ASSERT_EQ(run_gpt(pack("one")).status, 0);
  for (int number = 8; number >= 1; --number) {
    const Words words = pack("many", {"--task", std::to_string(number) + "/8"});
    if (number == 2 || number == 5 || number == 7) {
      // Ids take two bytes. The ids of a block of 1 MiB fit below the limit, but not the ids of the longer
      // line.
      EXPECT_EQ(run_and_kill(words, 2 * kBlock + kBlock / 2), -SIGXFSZ);
      const std::string part = path("many/.tasks/" + std::to_string(number) + "-of-8/");
      EXPECT_TRUE(fs::exists(part + "shard-00000.bin") && fs::exists(part + ".lock"));
    } else {
      const GptRun run = run_gpt(words);
      ASSERT_EQ(run.status, 0) << run.err;
      EXPECT_TRUE(names(run.err, {"2/8", "gpt data pack --out " + path("many") + " --merge"}));
    }
  }
  const Words merge = {"data", "pack", "--out", path("many"), "--merge"};
  expect_error(run_gpt(merge), 1, {path("many"), 3, 8, "2/8, 5/8, 7/8", "gpt data pack", "--task 2/8"});
  for (const Words& words :
       {Words{"data", "info", path("many")}, Words{"train", path("many"), "--out", path("r")}})
    expect_error(run_gpt(words), 1,
                 {path("many"), 8, "gpt data pack --out " + path("many") + " --merge", path("many/.tasks")});
  for (const std::string task : {"2/8", "5/8", "7/8"}) {
    const GptRun run = run_gpt(pack("many", {"--task", task}));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_TRUE(names(run.err, {"1 of 2", "gpt data pack --out " + path("many") + " --merge"}));
    EXPECT_EQ(bool{names(run.err, {"7/8"})}, task != "7/8") << "no other is missing: " << run.err;
  }
  EXPECT_EQ(run_and_kill(merge, kBlock), -SIGXFSZ);
  const GptRun merged = run_gpt(merge);
  EXPECT_EQ(merged.status, 0) << merged.err;
  EXPECT_TRUE(contents(path("many")) == contents(path("one")));
  EXPECT_EQ(run_gpt({"data", "verify", path("many")}).status, 0);
}

TEST_F(PackTasks, WrongFlagsAreRefused) {
  gpt::test::write_plain_file(path("a.jsonl"), "{\"text\":\"a\"}\n");
  expect_error(run_gpt(pack("s", {"--task", "0/8"})), 2, {"--task", "1 <= I <= N <= 500", "\"0/8\""});
  expect_error(run_gpt(pack("s", {"--task", "1/8", "--dry-run"})), 2, {"--task", "--dry-run"});
  expect_error(run_gpt(pack("s.bin", {"--task", "1/8"})), 2, {"--out", "--task", path("s.bin")});
  expect_error(run_gpt(pack("s", {"--merge"})), 2, {"--data", "--merge"});
  expect_error(run_gpt({"data", "pack", "--merge"}), 2, {"--out"});
  expect_error(run_gpt({"data", "pack", "--merge", "--out", path("no")}), 1, {path("no")});
  EXPECT_FALSE(fs::exists(path("s")));
}

// Each task has its own lock, and the merge takes all locks.
TEST_F(PackTasks, LocksAreThoseOfTasks) {
  gpt::test::write_plain_file(path("a.jsonl"), "{\"text\":\"a\"}\n");
  const Words merge = {"data", "pack", "--out", path("s"), "--merge"};
  {
    const auto lock = gpt::FolderLock::of_folder(path("s/.tasks/1-of-2"), [](std::string_view) {});
    expect_error(run_gpt(pack("s", {"--task", "1/2"})), 1, {path("s/.tasks/1-of-2"), ::getpid()});
    EXPECT_EQ(run_gpt(pack("s", {"--task", "2/2"})).status, 0);
    expect_error(run_gpt(merge), 1, {path("s/.tasks/1-of-2"), ::getpid()});
  }
  EXPECT_EQ(run_gpt(pack("s", {"--task", "1/2"})).status, 0);
  EXPECT_EQ(run_gpt(merge).status, 0);
  ASSERT_EQ(run_gpt(pack("one")).status, 0);
  EXPECT_TRUE(contents(path("s")) == contents(path("one")));
}

}  // namespace
