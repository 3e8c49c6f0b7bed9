#include "distributed/machine_share.h"

#include <sched.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/ranges.h"
#include "base/thread_pool.h"
#include "distributed/shares.h"

namespace gpt {
namespace {

// Gathers the threads and the allowed CPUs of all processes.
std::vector<ProcessCpus> processes_with_cpus(Communicator& processes, int threads) {
  constexpr const char* kWhat = "gathering the CPUs of the ranks";
  std::vector<double> own = {static_cast<double>(threads)};
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) own.push_back(cpu);
    }
  }
  const std::vector<double> counts = gather(processes, static_cast<double>(own.size()), kWhat);
  const std::vector<double> all = joined(processes, own, kWhat);
  std::vector<ProcessCpus> list;
  auto at = all.begin();
  for (int rank = 0; rank < processes.size(); ++rank) {
    const auto end = at + static_cast<std::ptrdiff_t>(counts[static_cast<size_t>(rank)]);
    ProcessCpus& process = list.emplace_back();
    process.host = processes.host(rank);
    process.threads = static_cast<int>(*at);
    std::transform(at + 1, end, std::back_inserter(process.cpus),
                   [](double x) { return static_cast<int>(x); });
    at = end;
  }
  return list;
}

// Returns the number of threads of a process that can run at the same time.
double useful_threads(const ProcessCpus& process) {
  return std::min<double>(process.threads, std::max<double>(1, static_cast<double>(process.cpus.size())));
}

// Returns, for each host, the number of CPUs that the processes on it may use.
std::map<std::string, double> cpus_of_machines(const std::vector<ProcessCpus>& processes) {
  std::map<std::string, std::set<int>> cpus;
  for (const ProcessCpus& process : processes)
    cpus[process.host].insert(process.cpus.begin(), process.cpus.end());
  std::map<std::string, double> counts;
  for (const auto& [host, numbers] : cpus)
    counts[host] = std::max<double>(1, static_cast<double>(numbers.size()));
  return counts;
}

}  // namespace

std::vector<double> parts_with_cpu(const std::vector<ProcessCpus>& processes) {
  std::map<std::string, double> left = cpus_of_machines(processes);
  return transformed(processes, [&](const ProcessCpus& process) {
    const double wanted = useful_threads(process), given = std::min(wanted, left[process.host]);
    left[process.host] -= given;
    return given / wanted;
  });
}

double speed_beside_others(Communicator& processes, int threads) {
  const std::vector<ProcessCpus> all = processes_with_cpus(processes, threads);
  const std::string own = processes.host(processes.rank());
  double wanted = 0;
  for (const ProcessCpus& process : all)
    wanted += process.host == own ? useful_threads(process) : 0;
  return std::min(1.0, cpus_of_machines(all)[own] / wanted);
}

std::vector<double> rates_together(Communicator& processes, int threads,
                                   const std::function<std::vector<double>()>& measure, const char* what) {
  const std::vector<double> parts = parts_with_cpu(processes_with_cpus(processes, threads));
  const double part = parts[static_cast<size_t>(processes.rank())];
  std::vector<double> rates;
  barrier(processes, what);
  if (part == 1) rates = measure();
  barrier(processes, what);
  if (part > 0 && part < 1) rates = measure();  // at most one process per machine
  const std::vector<double> all = joined(processes, rates, what);
  const std::vector<double> counts = gather(processes, static_cast<double>(rates.size()), what);
  std::vector<double> sums;
  size_t at = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    sums.resize(std::max(sums.size(), static_cast<size_t>(counts[rank])));
    for (size_t i = 0; i < static_cast<size_t>(counts[rank]); ++i)
      sums[i] += parts[rank] * all[at++];
  }
  return sums;
}

}  // namespace gpt
