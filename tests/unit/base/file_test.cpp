#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/mapped_file.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

using test::error_of;
using test::names;
using test::TempDir;

// Checks that an error message is one line and names the object.
void expect_error(const std::string& error, const std::string& object) {
  EXPECT_TRUE(names(error, {object}));
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

TEST(WriteFileAtomic, ReplacesAndLeavesNothingElse) {
  TempDir dir;
  const std::string path = dir.file("a.txt");
  write_file_atomic(path, "old");
  write_file_atomic(path, std::string(3 << 20, 'x'));  // larger than one buffer
  EXPECT_EQ(read_file(path), std::string(3 << 20, 'x'));
  write_file_atomic(path, "");
  EXPECT_EQ(read_file(path), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1)
      << "a temporary file is left";
}

size_t entries(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// Each process writes to its own temporary file. Temporary files are only removed if their process has ended.
TEST(WriteFileAtomic, TwoProcessesAtOnce) {
  TempDir dir;
  const std::string path = dir.file("a.txt"), theirs = dir.file(".a.txt.tmp-1-0");
  const int other = open(theirs.c_str(), O_RDWR | O_CREAT, 0644);
  ASSERT_EQ(flock(other, LOCK_EX | LOCK_NB), 0);
  write_file_atomic(path, "new");
  EXPECT_EQ(read_file(path), "new");
  EXPECT_TRUE(std::filesystem::exists(theirs));
  close(other);  // like a killed process, which leaves the file
  write_file_atomic(path, "newer");
  EXPECT_FALSE(std::filesystem::exists(theirs));
}

// A limit on the file size simulates a full disk.
TEST(WriteFileAtomic, AFullDiskIsAnErrorAndTheOldFileStays) {
  TempDir dir;
  const std::string path = dir.file("a.txt");
  write_file_atomic(path, "old");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 4096, .rlim_max = before.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { write_file_atomic(path, std::string(9000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  expect_error(error, "a.txt");
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(entries(dir.path()), 1u);
}

TEST(WriteFileAtomic, TouchesNoFileBesideTheOneItWrites) {
  TempDir dir;
  const std::string path = dir.file("a.txt");
  write_file_atomic(dir.file("a.txt.tmp"), "a user's");
  write_file_atomic(dir.file(".a.txt.tmp-1-0"), "of a killed writer");
  write_file_atomic(path, "new");
  EXPECT_EQ(read_file(dir.file("a.txt.tmp")), "a user's");
  EXPECT_EQ(entries(dir.path()), 2u);
}

TEST(WriteFileAtomic, FollowsLinksAndWritesToDevices) {
  TempDir dir;
  write_file_atomic(dir.file("real"), "old");
  ASSERT_EQ(symlink("real", dir.file("link").c_str()), 0);
  ASSERT_EQ(symlink("coming", dir.file("dangling").c_str()), 0);
  write_file_atomic(dir.file("link"), "new");
  write_file_atomic(dir.file("dangling"), "there");
  EXPECT_EQ(read_file(dir.file("real")), "new");
  EXPECT_EQ(read_file(dir.file("coming")), "there");
  EXPECT_TRUE(std::filesystem::is_symlink(dir.file("link")));
  ASSERT_EQ(symlink("loop", dir.file("loop").c_str()), 0);
  expect_error(error_of([&] { write_file_atomic(dir.file("loop"), "x"); }), "loop");
  ASSERT_EQ(symlink("/dev/null", dir.file("nothing").c_str()), 0);
  write_file_atomic(dir.file("nothing"), "x");
  EXPECT_TRUE(std::filesystem::is_symlink(dir.file("nothing")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(WriteFileAtomic, ErrorsNameThePath) {
  TempDir dir;
  expect_error(error_of([&] { write_file_atomic(dir.file("none/a.txt"), "x"); }), "none/a.txt");
  make_directories(dir.file("folder/inside"));
  EXPECT_TRUE(std::filesystem::is_directory(dir.file("folder/inside")));
  expect_error(error_of([&] { write_file_atomic(dir.file("folder"), "x"); }), "folder");
  EXPECT_TRUE(std::filesystem::is_directory(dir.file("folder")));
  write_file_atomic(dir.file("file"), "x");
  expect_error(error_of([&] { make_directories(dir.file("file/below")); }), "file/below");
}

TEST(FileWriter, WritesInPieces) {
  TempDir dir;
  FileWriter writer(dir.file("a"));
  const std::string piece(100000, 'p');
  for (int i = 0; i < 30; ++i)
    writer.write(piece);
  writer.write("end");
  writer.finish();
  const std::string content = read_file(dir.file("a"));
  EXPECT_EQ(content.size(), 30 * piece.size() + 3);
  EXPECT_EQ(content.substr(content.size() - 4), "pend");
  expect_error(error_of([] {
                 FileWriter full("/dev/full");
                 full.write(std::string(4 << 20, 'x'));
                 full.finish();
               }),
               "/dev/full");
}

TEST(ReadFile, ErrorsNameThePath) {
  TempDir dir;
  expect_error(error_of([&] { read_file(dir.file("none")); }), "none");
  expect_error(error_of([&] { read_file(dir.path()); }), dir.path());
  write_file_atomic(dir.file("large"), std::string(1000, 'x'));
  expect_error(error_of([&] { read_file(dir.file("large"), 999); }), "large");
  EXPECT_EQ(read_file(dir.file("large"), 1000).size(), 1000u);
  // Reading a pipe without a writer must not hang.
  ASSERT_EQ(mkfifo(dir.file("pipe").c_str(), 0600), 0);
  expect_error(error_of([&] { read_file(dir.file("pipe")); }), "pipe");
}

TEST(MappedFile, MapsAndMoves) {
  TempDir dir;
  write_file_atomic(dir.file("a"), "hello");
  MappedFile a(dir.file("a"));
  EXPECT_EQ(a.bytes().size(), 5u);
  EXPECT_EQ(static_cast<char>(a.bytes()[4]), 'o');
  EXPECT_EQ(a.path(), dir.file("a"));
  MappedFile b(std::move(a));
  a = MappedFile();
  EXPECT_EQ(b.bytes().size(), 5u);
  b = MappedFile(dir.file("a"));
  EXPECT_EQ(static_cast<char>(b.bytes()[0]), 'h');
  write_file_atomic(dir.file("empty"), "");
  EXPECT_TRUE(MappedFile(dir.file("empty")).bytes().empty());
  EXPECT_TRUE(MappedFile().bytes().empty());
}

TEST(MappedFile, ErrorsNameThePath) {
  TempDir dir;
  expect_error(error_of([&] { MappedFile(dir.file("none")); }), "none");
  expect_error(error_of([&] { MappedFile{dir.path()}; }), dir.path());
  expect_error(error_of([&] { MappedFile("/dev/null"); }), "/dev/null");
  ASSERT_EQ(mkfifo(dir.file("pipe").c_str(), 0600), 0);
  expect_error(error_of([&] { MappedFile(dir.file("pipe")); }), "pipe");
}

}  // namespace
}  // namespace gpt
