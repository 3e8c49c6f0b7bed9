// Tests the memory that is available to a process, which depends on the limits of its control groups.

#include "base/process_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace gpt {
namespace {

class AvailableMemory : public testing::Test {
 protected:
  AvailableMemory() { write("proc/meminfo", "MemTotal: 2000 kB\nMemAvailable: 1000 kB\n"); }
  void write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = dir_.path() + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  int64_t available() const { return available_memory(dir_.path() + "/proc", dir_.path() + "/groups"); }

 private:
  test::TempDir dir_;
};

TEST_F(AvailableMemory, IsTheSystemsWithoutGroups) {
  EXPECT_EQ(available(), 1000 * 1024);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(available(), 1000 * 1024);
  EXPECT_GT(available_memory(), 0);
}

TEST_F(AvailableMemory, IsWhatAllGroupsLeave) {
  write("proc/self/cgroup", "3:cpu:/\n0::/user/gpt\n");
  write("groups/user/gpt/memory.max", "max\n");
  EXPECT_EQ(available(), 1000 * 1024);
  write("groups/user/gpt/memory.max", "90000\n");
  write("groups/user/gpt/memory.current", "50000\n");
  write("groups/user/gpt/memory.stat", "anon 700\nfile 900\ninactive_file 300\nactive_file 20\n");
  EXPECT_EQ(available(), 40320);
  write("groups/user/memory.max", "70000\n");
  write("groups/user/memory.current", "60000\n");
  EXPECT_EQ(available(), 10000);
  write("groups/user/memory.current", "80000\n");
  EXPECT_EQ(available(), 0);
  write("groups/user/memory.max", "max\n");
  write("groups/user/gpt/memory.high", "60000\n");
  EXPECT_EQ(available(), 10320) << "where the system begins to slow it down";
  write("groups/user/gpt/memory.stat",
        "inactive_file 9000000000000000000\nactive_file 9000000000000000000\n");
  EXPECT_EQ(available(), 60000) << "no more than all is cached";
  write("groups/user/gpt/memory.stat", "inactive_file -9000000000000000000\n");
  EXPECT_EQ(available(), 10000);
}

TEST_F(AvailableMemory, IsWhatAContainerLeaves) {
  write("proc/self/cgroup", "0::/not/seen/from/inside\n");
  write("groups/memory.max", "500\n");
  write("groups/memory.current", "100\n");
  EXPECT_EQ(available(), 400);
}

TEST_F(AvailableMemory, KnowsTheFirstVersionOfGroups) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/api/job\n0::/\n");
  write("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("groups/memory/api/job/memory.limit_in_bytes", "8000\n");
  write("groups/memory/api/job/memory.usage_in_bytes", "5000\n");
  EXPECT_EQ(available(), 3000);
  write("proc/self/cgroup", "4:cpu,memory:/api/job\n");
  EXPECT_EQ(available(), 3000);
  write("proc/self/cgroup", "4:memory,hugetlb:/api/job\n");
  EXPECT_EQ(available(), 3000);
}

}  // namespace
}  // namespace gpt
