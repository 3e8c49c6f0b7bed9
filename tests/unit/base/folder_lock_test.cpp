#include "base/folder_lock.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using test::error_of;
using test::names;
using test::refused;
using test::TempDir;
namespace fs = std::filesystem;

void no_note(std::string_view text) {
  ADD_FAILURE() << text;
}

std::string error_of_lock(const std::string& folder) {
  return error_of([&] { FolderLock::of_folder(folder, no_note); });
}

TEST(FolderLock, KeepsOthersOutAndNamesTheProcess) {
  TempDir dir;
  {
    const FolderLock lock = FolderLock::of_folder(dir.path(), no_note);
    const std::string error = error_of_lock(dir.path());
    EXPECT_TRUE(names(error, {dir.path(), getpid(), "unit_base"})) << "with the command";
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
  EXPECT_TRUE(fs::is_empty(dir.path())) << "the lock is left";
  EXPECT_EQ(error_of_lock(dir.path()), "no error");
}

TEST(FolderLock, OfAFileKeepsNoOtherFile) {
  TempDir dir;
  const FolderLock lock = FolderLock::of_file(dir.file("a.json"), no_note);
  EXPECT_NE(error_of([&] { FolderLock::of_file(dir.file("a.json"), no_note); }), "no error");
  EXPECT_EQ(error_of([&] { FolderLock::of_file(dir.file("b.json"), no_note); }), "no error");
  EXPECT_EQ(error_of_lock(dir.path()), "no error");
}

TEST(FolderLock, AFolderMadeForItGoesUnlessSomethingIsInIt) {
  TempDir dir;
  EXPECT_EQ(error_of_lock(dir.file("new")), "no error");
  EXPECT_FALSE(fs::exists(dir.file("new")));
  {
    const FolderLock lock = FolderLock::of_folder(dir.file("new"), no_note);
    write_file_atomic(dir.file("new") + "/a", "a");
  }
  EXPECT_EQ(read_file(dir.file("new") + "/a"), "a");
}

TEST(FolderLock, AKilledProcessLeavesNone) {
  TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock = FolderLock::of_folder(dir.path(), [](std::string_view) {});
    ::_exit(0);  // skips the destructor
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(fs::exists(dir.file(".lock")));
  EXPECT_EQ(error_of_lock(dir.path()), "no error");
}

TEST(FolderLock, LeavesFilesOfOthersAlone) {
  TempDir dir;
  const auto refuses_the_file = [&] {
    return refused([&] { FolderLock::of_folder(dir.path(), no_note); }, dir.file(".lock"), {"`out`"});
  };
  write_file_atomic(dir.file(".lock"), "somebody else's\n");
  EXPECT_TRUE(refuses_the_file());
  EXPECT_EQ(read_file(dir.file(".lock")), "somebody else's\n");
  fs::remove(dir.file(".lock"));
  ASSERT_EQ(mkfifo(dir.file(".lock").c_str(), 0600), 0);
  EXPECT_TRUE(refuses_the_file());
  fs::remove(dir.file(".lock"));
  write_file_atomic(dir.file("target"), "");
  fs::create_symlink(dir.file("target"), dir.file(".lock"));
  EXPECT_TRUE(names(error_of_lock(dir.path()), {dir.file(".lock")}));
}

}  // namespace
}  // namespace gpt
