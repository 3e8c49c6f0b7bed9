#include "base/numa.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace gpt {
namespace {

using test::TempDir;

TEST(Numa, NodesWithCpusOfThisProcessAreCounted) {
  const TempDir dir;
  const auto add = [&](int node, const char* cpus) {
    const std::filesystem::path folder = dir.file("node" + std::to_string(node));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "cpulist") << cpus << "\n";
  };
  EXPECT_EQ(numa_nodes(dir.path()), 1);  // there is no information
  add(0, "0-1023");
  EXPECT_EQ(numa_nodes(dir.path()), 1);
  add(1, "5000,0-511,512-1023");
  add(2, "");           // a node without CPUs
  add(3, "5000-6000");  // CPUs that this process cannot use
  EXPECT_EQ(numa_nodes(dir.path()), 2);
  add(7, "0-255,256-1023");
  EXPECT_EQ(numa_nodes(dir.path()), 3);
  add(8, "-,x");  // not a list
  EXPECT_EQ(numa_nodes(dir.path()), 3);
}

}  // namespace
}  // namespace gpt
