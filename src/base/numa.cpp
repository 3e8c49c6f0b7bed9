#include "base/numa.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>

namespace gpt {
namespace {

constexpr int kMostNodes = 1024;  // the limit of the Linux kernel

// Returns true if the set contains a CPU of a list such as "0-3,8,10-11".
bool has_any(const cpu_set_t& set, std::istream& list) {
  for (int first = 0; list >> first;) {
    int last = first;
    if (list.peek() == '-') list.ignore() >> last;
    for (int cpu = std::max(first, 0); cpu <= std::min(last, CPU_SETSIZE - 1); ++cpu) {
      if (CPU_ISSET(cpu, &set)) return true;
    }
    if (list.peek() == ',') list.ignore();
  }
  return false;
}

}  // namespace

int numa_nodes(const std::string& nodes) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int count = 0;
  for (int node = 0; node < kMostNodes; ++node) {  // node numbers may have gaps
    std::ifstream list(fmt::format("{}/node{}/cpulist", nodes, node));
    if (list && has_any(set, list)) ++count;
  }
  return std::max(count, 1);
}

}  // namespace gpt
