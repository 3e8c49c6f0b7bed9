#pragma once

#include <functional>
#include <string>
#include <vector>

#include "distributed/communicator.h"

namespace gpt {

// What a process computes with.
struct ProcessCpus {
  std::string host;
  int threads = 1;
  std::vector<int> cpus;  // that it may use, by number
};

// By process, the part of its threads that has a CPU of the machine when all compute at the same time and the
// first processes come first: 1 for all where there are as many CPUs as threads, else 0 for some. Threads
// beyond the CPUs that a process may use count for nothing.
std::vector<double> parts_with_cpu(const std::vector<ProcessCpus>& processes);

// How fast this process is while all others on its machine compute too, against alone: 1 where there are as
// many CPUs as threads. All processes call it.
double speed_beside_others(Communicator& processes, int threads);

// What all processes reach together of rates that each can measure. Those measure at the same time that have
// a CPU for each thread: rates of processes that take turns cannot be added up. All processes call it.
std::vector<double> rates_together(Communicator& processes, int threads,
                                   const std::function<std::vector<double>()>& measure, const char* what);

}  // namespace gpt
