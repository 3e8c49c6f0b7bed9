
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::names;
using test::TempDir;

TEST(Paths, OverlapThroughLinksAndDots) {
  TempDir dir;
  fs::create_directories(dir.file("a/b"));
  write_file_atomic(dir.file("a/b/f"), "x");
  fs::create_directory_symlink(dir.file("a"), dir.file("link"));
  fs::create_hard_link(dir.file("a/b/f"), dir.file("hard"));
  fs::create_symlink(dir.file("a/b/f"), dir.file("soft"));
  const auto overlap = [&](const char* x, const char* y) {
    EXPECT_EQ(paths_overlap(dir.file(x), dir.file(y)), paths_overlap(dir.file(y), dir.file(x)));
    return paths_overlap(dir.file(x), dir.file(y));
  };
  for (const auto& [x, y] : {std::pair{"a", "a/b/f"},
                             {"a/", "a"},
                             {"link/b", "a/b"},
                             {"link", "a/b/f"},
                             {"a/b/../b/new", "link/b"},
                             {"hard", "a/b/f"},
                             {"soft", "a/b"},
                             {"soft", "hard"}})
    EXPECT_TRUE(overlap(x, y)) << x << " " << y;
  for (const auto& [x, y] :
       {std::pair{"a", "ab"}, {"a/b/new", "a/b/f"}, {"none", "other"}, {"link/c", "a/b"}})
    EXPECT_FALSE(overlap(x, y)) << x << " " << y;
}

TEST(Paths, ARefusalNamesBoth) {
  TempDir dir;
  fs::create_directories(dir.file("a/b"));
  const std::string in = dir.file("a/b");
  const auto error = [&](const std::string& out) {
    return error_of([&] { refuse_overlap(out, std::vector{dir.file("x"), in}); });
  };
  for (const std::string& out : {dir.file("a"), in + "/c", dir.file("a/b/")})
    EXPECT_TRUE(names(error(out), {out, in}));
  EXPECT_EQ(error(dir.file("c")), "no error");
}

}  // namespace
}  // namespace gpt
