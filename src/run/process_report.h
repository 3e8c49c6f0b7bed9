#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "report/report_html.h"
#include "train/train_config.h"

namespace gpt {

// Stores the waiting times and peak memory of the ranks of a run, indexed by rank.
struct ProcessTimes {
  std::vector<double> waited;  // seconds of waiting for other ranks and for messages
  std::vector<double> peak;    // peak memory in bytes
  double seconds = 0;          // total seconds of training steps, equal on all ranks
  int64_t sent_bytes = 0;      // bytes sent by each rank in a step
};

// Counts the bytes that rank 0 sends in a step.
struct SentBytes {
  int64_t gradients = 0;  // gradients of one shard, sent to the owners once per round
  int64_t results = 0;    // gradient sums, or weights with ZeRO, sent to all ranks
  int64_t moved = 0;      // gradient sums sent to the ranks that update whole matrices (ZeRO with Muon)
  int64_t rounds = 1;
  int64_t times = 1;  // number of times that `results` are sent
  int64_t total() const { return rounds * gradients + times * results + moved; }
};
SentBytes sent_in_step(const TrainConfig& config, int64_t elements, int processes);

// Gathers the waiting times of all ranks. All ranks must call it. `waited` is this rank's waiting time during
// steps that took `seconds` in total.
ProcessTimes gather_times(Communicator& processes, double waited, double seconds, int64_t sent_bytes);
// Returns "2 processes: waiting 1.3 % of the time (rank 1) to 4.0 % (rank 0); ..." followed by a newline.
std::string process_line(const ProcessTimes& times);
ReportSection process_section(const ProcessTimes& times, const Communicator& processes);

}  // namespace gpt
