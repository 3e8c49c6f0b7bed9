#pragma once

#include <functional>
#include <string>
#include <vector>

#include "distributed/communicator.h"

namespace gpt {

// Describes the computing resources of a process.
struct ProcessCpus {
  std::string host;
  int threads = 1;
  std::vector<int> cpus;  // numbers of the CPUs that the process may use
};

// Returns, for each process, the fraction of its threads that get a CPU of the machine. The function assumes
// that all processes compute at the same time and that the CPUs are assigned in the order of the processes.
// If there are enough CPUs for all threads, every fraction is 1. Otherwise, some processes get a smaller
// fraction or 0. If a process has more threads than CPUs that it may use, the surplus threads are not
// counted.
std::vector<double> parts_with_cpu(const std::vector<ProcessCpus>& processes);

// Returns the speed of this process while all processes on its machine compute, relative to its speed when it
// runs alone. The result is 1 if the machine has enough CPUs for all threads. All ranks must call it.
double speed_beside_others(Communicator& processes, int threads);

// Returns the rates, such as FLOP/s, that all processes reach together. `measure` measures the rates of one
// process. Processes that have a CPU for every thread measure at the same time, and their rates are added. A
// process that has CPUs for only some of its threads measures afterwards, and its rates are scaled
// accordingly. All ranks must call it.
std::vector<double> rates_together(Communicator& processes, int threads,
                                   const std::function<std::vector<double>()>& measure, const char* what);

}  // namespace gpt
