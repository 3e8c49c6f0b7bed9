#pragma once

#include <string>

namespace gpt {

// Returns the number of NUMA nodes of the CPUs in the affinity mask of this process, or 1 if Linux does not
// report this number. `nodes`: the folder that contains node0/cpulist, node1/cpulist, ...
int numa_nodes(const std::string& nodes = "/sys/devices/system/node");

}  // namespace gpt
