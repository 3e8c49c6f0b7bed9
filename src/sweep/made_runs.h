#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "sweep/findings.h"

namespace gpt {

// Assigns runs with these FLOPs to processes, and returns the rank for each run. The runs are assigned in
// order of decreasing FLOPs. Each run goes to the rank with the fewest FLOPs so far.
std::vector<int> deal_runs(const std::vector<double>& flops, int processes);
// Returns the time until the last process has finished its runs. `seconds` has the duration of each run.
double longest_share(const std::vector<double>& flops, const std::vector<double>& seconds, int processes);

// Returns the indices of the waiting runs that this process makes. A single process makes all of them.
// Several processes each get about the same number of FLOPs.
std::vector<size_t> own_runs(const Sweep& sweep, const Communicator& processes);

// Lists the runs that a process has made so far.
struct MadeRuns {
  std::vector<std::string> done;                            // names of the finished runs
  std::vector<std::pair<std::string, std::string>> failed;  // names and errors of the failed runs
  bool ended = false;                                       // the process makes no further runs
  bool interrupted = false;  // the process was interrupted before it made all of its runs
};

// write_made_runs writes FOLDER/.rank-R.json, which the other processes read with read_made_runs. A file is
// used instead of a message because a run may take longer than the timeout of a message. read_made_runs
// returns an empty result if the file does not exist yet.
void write_made_runs(const std::string& folder, int rank, const MadeRuns& made);
MadeRuns read_made_runs(const std::string& folder, int rank);
// Removes the files of all ranks, including files that an earlier command left.
void remove_made_runs(const std::string& folder);

}  // namespace gpt
