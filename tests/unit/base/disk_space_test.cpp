#include "base/file.h"

#include <gtest/gtest.h>

#include "support/error_of.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

TEST(DiskSpace, SaysWhatIsNeededAndWhere) {
  const test::TempDir dir;
  if (!free_space(dir.path())) GTEST_SKIP() << "this file system has no size";
  EXPECT_EQ(test::error_of([&] { require_space(dir.path(), 1, "run/last"); }), "no error");
  const std::string error = test::error_of([&] { require_space(dir.path(), uint64_t{1} << 62, "run/last"); });
  EXPECT_TRUE(test::names(error, {"run/last", "4611686018427.4 MB", dir.path()}));
}

TEST(DiskSpace, OfAFolderThatIsNotThereIsUnknown) {
  EXPECT_FALSE(free_space("/does/not/exist"));
  EXPECT_EQ(test::error_of([&] { require_space("/does/not/exist", UINT64_MAX, "x"); }), "no error");
}

}  // namespace
}  // namespace gpt
