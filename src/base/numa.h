#pragma once

#include <string>

namespace gpt {

// Returns the number of NUMA nodes that the CPUs of this process (its affinity mask) belong to, or 1 if Linux
// does not report it. `nodes`: the folder that contains node0/cpulist, node1/cpulist, ...
int numa_nodes(const std::string& nodes = "/sys/devices/system/node");

}  // namespace gpt
