#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "sweep/findings.h"

namespace gpt {

// Assigns runs with these FLOPs to processes, and returns the rank for each run. The runs are assigned in
// order of decreasing FLOPs. Each run is assigned to the rank with the fewest FLOPs so far.
std::vector<int> deal_runs(const std::vector<double>& flops, int processes);
// Returns the time until the last process has finished its runs. `seconds` contains the duration of each run.
double longest_share(const std::vector<double>& flops, const std::vector<double>& seconds, int processes);

// Returns the indices of the pending runs that this process executes. A single process executes all pending
// runs. With several processes, each process receives runs with about the same total FLOPs.
std::vector<size_t> own_runs(const Sweep& sweep, const Communicator& processes);

// Lists the runs that a process has completed so far.
struct MadeRuns {
  std::vector<std::string> done;                            // names of the finished runs
  std::vector<std::pair<std::string, std::string>> failed;  // names and errors of the failed runs
  bool ended = false;                                       // the process executes no further runs
  bool interrupted = false;  // the process was interrupted before it completed all of its runs
};

// write_made_runs writes FOLDER/.rank-R.json, which the other processes read with read_made_runs. The
// processes use files instead of messages because a run may take longer than the timeout of a message. If the
// file does not exist yet, read_made_runs returns an empty result.
void write_made_runs(const std::string& folder, int rank, const MadeRuns& made);
MadeRuns read_made_runs(const std::string& folder, int rank);
// Removes the files of all ranks, including files that an earlier command left.
void remove_made_runs(const std::string& folder);

}  // namespace gpt
