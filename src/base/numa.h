#pragma once

#include <string>

namespace gpt {

// How many NUMA nodes the CPUs of this process (its affinity mask) belong to; 1 where Linux does not say.
// `nodes`: the folder of node0/cpulist, node1/cpulist, ...
int numa_nodes(const std::string& nodes = "/sys/devices/system/node");

}  // namespace gpt
