#include "io/checkpoint_dir.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/fault_point.h"
#include "base/file.h"
#include "base/process_memory.h"
#include "base/rng.h"
#include "unit/io/io_test_util.h"

namespace gpt {

static void PrintTo(ReplaceMode mode, std::ostream* out) {
  *out << (mode == ReplaceMode::exchange ? "exchange" : "rename_pair");
}

namespace {

namespace fs = std::filesystem;

// Writes three files that contain `value`, one of them in a subfolder.
void fill(const std::string& folder, const std::string& value) {
  fs::create_directories(folder + "/sub");
  write_text(folder + "/a.bin", value);
  write_text(folder + "/b.bin", value + std::string(10'000, 'b'));
  write_text(folder + "/sub/c.bin", value);
}

void save(const std::string& path, const std::string& value, ReplaceMode mode = ReplaceMode::exchange) {
  DirectoryWriter writer(path, mode);
  fill(writer.path(), value);
  writer.commit();
}

// Checks that the files of a folder agree and match the manifest. Returns their value.
std::string load(const std::string& path) {
  verify_manifest(path, true);
  const std::string value = read_text(path + "/a.bin");
  EXPECT_EQ(read_text(path + "/sub/c.bin"), value);
  EXPECT_EQ(read_text(path + "/b.bin"), value + std::string(10'000, 'b'));
  return value;
}

size_t entries(const std::string& path) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
}

class CheckpointDir : public testing::TestWithParam<ReplaceMode> {
 protected:
  TempDir dir_;
  std::string last_ = dir_.file("run/last");
};

TEST_P(CheckpointDir, CreatesThenReplaces) {
  save(last_, "one", GetParam());
  EXPECT_EQ(load(last_), "one");
  save(last_ + "/", "two", GetParam());
  EXPECT_EQ(load(last_), "two");
  EXPECT_EQ(entries(dir_.file("run")), 1u);
}

TEST_P(CheckpointDir, WithoutCommitNothingChanges) {
  save(last_, "one", GetParam());
  {
    DirectoryWriter writer(last_, GetParam());
    fill(writer.path(), "two");
  }
  EXPECT_EQ(load(last_), "one");
  EXPECT_EQ(entries(dir_.file("run")), 1u);
}

TEST_P(CheckpointDir, TwoWritersDoNotDisturbEachOther) {
  save(last_, "zero", GetParam());
  DirectoryWriter first(last_, GetParam());
  fill(first.path(), "one");
  DirectoryWriter second(last_, GetParam());
  fill(second.path(), "two");
  EXPECT_NE(first.path(), second.path());
  first.commit();
  EXPECT_EQ(load(last_), "one");
  second.commit();
  EXPECT_EQ(load(last_), "two");
  EXPECT_EQ(entries(dir_.file("run")), 1u);
}

// Saves `value` in a child process that is killed at a fault point.
void save_until_killed(const std::string& path, const std::string& value, ReplaceMode mode,
                       const std::string& point) {
  const pid_t child = fork();
  if (child == 0) {
    setenv(kFaultPoint, point.c_str(), 1);
    try {
      save(path, value, mode);
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << point << ": the save does not pass it";
  ASSERT_EQ(WTERMSIG(status), SIGKILL) << point;
}

// Kills a save at every fault point. Before the new folder is in place, loading gives the old value, and
// afterwards the new value. A file that another program has written to the folder is never lost.
TEST_P(CheckpointDir, SurvivesAKillAtEveryPlace) {
  struct Place {
    std::string point;
    bool saved;
  };
  std::vector<Place> places = {{"save.begin", false},    {"save.synced", false},   {"save.synced:1", false},
                               {"save.synced:2", false}, {"save.sealed", false},   {"save.replaced", true},
                               {"save.discard", true},   {"save.discard:1", true}, {"save.discard:2", true},
                               {"save.discard:3", true}, {"save.discard:4", true}};
  if (GetParam() == ReplaceMode::rename_pair) places.push_back({"save.moved", false});
  int64_t next = 0;
  for (const auto& [point, saved] : places) {
    const std::string before = std::to_string(next++), after = std::to_string(next++);
    save(last_, before, GetParam());
    write_text(last_ + "/theirs.txt", before);
    save_until_killed(last_, after, GetParam(), point);
    recover_directory(last_);
    EXPECT_EQ(load(last_), saved ? after : before) << point;
    save(last_, "end", GetParam());
    EXPECT_EQ(load(last_), "end") << point;
    EXPECT_EQ(read_text(last_ + "/theirs.txt"), before) << point;
    EXPECT_EQ(entries(dir_.file("run")), 1u) << point << ": something stale was left behind";
  }
}

// The next writer is killed while it repairs the state that the first kill has left.
TEST_P(CheckpointDir, SurvivesAKillOfTheNextWriterToo) {
  for (const char* first : {"save.sealed", "save.replaced", "save.discard:2", "save.moved"}) {
    if (GetParam() == ReplaceMode::exchange && first == std::string("save.moved")) continue;
    for (const char* second : {"save.discard", "save.discard:2"}) {
      fs::remove_all(dir_.file("run"));
      save(last_, "one", GetParam());
      save_until_killed(last_, "two", GetParam(), first);
      save_until_killed(last_, "three", GetParam(), second);
      recover_directory(last_);
      const std::string found = load(last_);
      EXPECT_TRUE(found == "one" || found == "two" || found == "three") << found;
      save(last_, "end", GetParam());
      EXPECT_EQ(load(last_), "end") << first << ", " << second;
      EXPECT_EQ(entries(dir_.file("run")), 1u) << first << ", " << second;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, CheckpointDir,
                         testing::Values(ReplaceMode::exchange, ReplaceMode::rename_pair),
                         [](const auto& mode) { return testing::PrintToString(mode.param); });

// Checksums are computed in chunks, because a checkpoint is larger than the weights in memory.
TEST(CheckpointDirMemory, SealingDoesNotHoldTheFiles) {
  TempDir dir;
  DirectoryWriter writer(dir.file("last"));
  constexpr int64_t kBytes = int64_t{32} << 20;
  const std::string block(1 << 20, 'x');
  write_file_atomic(writer.path() + "/large", [&](FileWriter& file) {
    for (int64_t left = kBytes; left > 0; left -= std::ssize(block))
      file.write(block);
  });
  reset_peak_resident();
  const int64_t before = peak_resident_bytes();
  writer.commit();
  verify_manifest(dir.file("last"), true);
  EXPECT_LT(peak_resident_bytes() - before, kBytes / 2);
}

TEST(CheckpointDirRepair, RestoresAnOldFolderThatWasMovedAway) {
  const TempDir dir;
  const std::string last = dir.file("last");
  save(last, "one");
  fs::rename(last, dir.file(".last.old"));
  fs::create_directory(dir.file(".last.tmp-1-0"));
  recover_directory(last);
  EXPECT_EQ(load(last), "one");
  EXPECT_EQ(entries(dir.path()), 1u);
}

TEST(CheckpointDirRepair, TheNextWriterRepairsToo) {
  const TempDir dir;
  const std::string last = dir.file("last");
  save(last, "one");
  fs::rename(last, dir.file(".last.old"));
  {
    DirectoryWriter writer(last);
    EXPECT_EQ(load(last), "one");
  }
  fs::copy(last, dir.file(".last.old"), fs::copy_options::recursive);
  recover_directory(last);
  EXPECT_EQ(load(last), "one");
  EXPECT_EQ(entries(dir.path()), 1u);
  recover_directory(dir.file("never-written"));
}

TEST(CheckpointDirErrors, NeverDeletesWhatItDidNotWrite) {
  const TempDir dir;
  fs::create_directory(dir.file("mine"));
  write_text(dir.file("mine/thesis.txt"), "x");
  const auto refuses = [](const std::string& path) {
    return names(error_of([&] { DirectoryWriter writer(path); }), {path});
  };
  EXPECT_TRUE(refuses(dir.file("mine")));
  EXPECT_EQ(read_text(dir.file("mine/thesis.txt")), "x");
  EXPECT_TRUE(refuses(dir.file("mine/thesis.txt")));
  EXPECT_TRUE(names(error_of([&] { DirectoryWriter writer(dir.file("mine/thesis.txt/last")); }),
                    {dir.file("mine/thesis.txt")}));
  for (const char* name : {".", "..", "/"})
    EXPECT_TRUE(refuses(name)) << name;
  EXPECT_TRUE(names(error_of([] { DirectoryWriter writer(""); }), {"\"\""}));
  fs::create_directory(dir.file("empty"));
  save(dir.file("empty"), "one");
  EXPECT_EQ(load(dir.file("empty")), "one");
}

TEST(CheckpointDirErrors, FollowsALinkToTheRealFolder) {
  const TempDir dir;
  save(dir.file("disk/run"), "one");
  fs::create_directory_symlink(dir.file("disk/run"), dir.file("last"));
  save(dir.file("last"), "two");
  EXPECT_TRUE(fs::is_symlink(dir.file("last")));
  EXPECT_EQ(load(dir.file("disk/run")), "two");
  fs::create_directory_symlink(dir.file("gone"), dir.file("dangling"));
  EXPECT_TRUE(names(error_of([&] { DirectoryWriter writer(dir.file("dangling")); }), {dir.file("dangling")}));
}

TEST(CheckpointDirErrors, RefusesToSaveLinksAndPipes) {
  const TempDir dir;
  save(dir.file("last"), "one");
  DirectoryWriter writer(dir.file("last"));
  fs::create_symlink("/etc/passwd", writer.path() + "/link");
  EXPECT_TRUE(names(error_of([&] { writer.commit(); }), {writer.path() + "/link"}));
  EXPECT_EQ(load(dir.file("last")), "one");
}

TEST(CheckpointDirErrors, AFullDiskLeavesTheOldFolder) {
  const TempDir dir;
  save(dir.file("last"), "one");
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    int code = 1;
    try {
      DirectoryWriter writer(dir.file("last"));
      fill(writer.path(), "two");
      const rlimit limit{16, 16};  // too small for the manifest
      setrlimit(RLIMIT_FSIZE, &limit);
      writer.commit();
    } catch (const Error&) {
      code = 42;
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(load(dir.file("last")), "one");
  EXPECT_EQ(entries(dir.path()), 1u);
}

TEST(Manifest, NamesTheDamagedFile) {
  const TempDir dir;
  const std::string last = dir.file("last");
  save(last, "one");
  write_text(last + "/sub/c.bin", "onE");
  EXPECT_NO_THROW(verify_manifest(last, false));
  const std::string damaged = last + "/sub/c.bin";
  EXPECT_TRUE(
      refused([&] { verify_manifest(last, true); }, damaged, {read_manifest(last).at("sub/c.bin").xxh3}));
  write_text(last + "/sub/c.bin", "on");
  EXPECT_TRUE(refused([&] { verify_manifest(last, false); }, damaged, {3, 2}));
  fs::remove(last + "/sub/c.bin");
  EXPECT_TRUE(refused([&] { verify_manifest(last, false); }, damaged, {last + "/manifest.json"}));
  fs::remove(last + "/manifest.json");
  EXPECT_TRUE(refused([&] { verify_manifest(last, false); }, last + "/manifest.json"));
}

TEST(Manifest, RejectsHostileManifests) {
  const TempDir dir;
  write_text(dir.file("f"), "x");
  const auto rejected = [&](const std::string& text, std::initializer_list<Fact> facts) {
    const std::string manifest = dir.file("manifest.json");
    write_text(manifest, text);
    return refused([&] { verify_manifest(dir.path(), true); }, manifest, facts);
  };
  const std::pair<std::string, std::string> outside[] = {{"/etc/passwd", "/etc/passwd"},
                                                         {"../f", "../f"},
                                                         {"a/../../f", "a/../../f"},
                                                         {"", ""},
                                                         {".", "."},
                                                         {"a//", "a//"},
                                                         {"f\\u0000", "f\\x00"}};
  for (const auto& [name, shown] : outside) {
    EXPECT_TRUE(rejected("{\"files\":{\"" + name + "\":{\"size\":1,\"xxh3\":\"0\"}}}", {"\"" + shown + "\""}))
        << name;
  }
  for (const std::string text :
       {"[]", "{}", R"({"files":[]})", R"({"files":{"f":1}})", R"({"files":{"f":{"size":-1,"xxh3":"0"}}})",
        R"({"files":{"f":{"size":1}}})", R"({"files":{"f":{"size":1,"xxh3":0}}})"}) {
    EXPECT_TRUE(rejected(text, {"files", "size", "xxh3"})) << text;
  }
  write_text(dir.file("manifest.json"), R"({"files":{"f":{"size":1,"xxh3":"0"}}})");
  EXPECT_TRUE(refused([&] { verify_manifest(dir.path(), true); }, dir.file("f"), {"\"0\""}));
}

}  // namespace
}  // namespace gpt
