#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "sweep/findings.h"

namespace gpt {

// Who makes each of some runs of these FLOPs: the largest come first, each to the process that has the least
// so far.
std::vector<int> deal_runs(const std::vector<double>& flops, int processes);
// How long the process is at work that has most of them, by the seconds of each run.
double longest_share(const std::vector<double>& flops, const std::vector<double>& seconds, int processes);

// Of the runs that wait those that this process makes, by their numbers: all of them where it is alone, else
// about as many FLOPs as every other process.
std::vector<size_t> own_runs(const Sweep& sweep, const Communicator& processes);

// What a process has made of its runs so far.
struct MadeRuns {
  std::vector<std::string> done;                            // their names
  std::vector<std::pair<std::string, std::string>> failed;  // their names and errors
  bool ended = false;                                       // no more will come
  bool interrupted = false;                                 // and some of its runs wait
};

// The processes read it in FOLDER/.rank-R.json. It is no message, which one would have to wait for: a run may
// take longer than any message. Nothing where there is no such file yet.
void write_made_runs(const std::string& folder, int rank, const MadeRuns& made);
MadeRuns read_made_runs(const std::string& folder, int rank);
// Of all ranks, also of an earlier command.
void remove_made_runs(const std::string& folder);

}  // namespace gpt
