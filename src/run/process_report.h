#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "report/report_html.h"
#include "train/train_config.h"

namespace gpt {

// How the processes that share a run get on, as far as it is known: by rank.
struct ProcessTimes {
  std::vector<double> waited;  // seconds, for others and for messages
  std::vector<double> peak;    // bytes of memory
  double seconds = 0;          // of training steps, the same for all
  int64_t sent_bytes = 0;      // by each in a step
};

// Bytes that rank 0 sends in a step, of so many trained elements.
struct SentBytes {
  int64_t gradients = 0;  // of a shard, to those who add them: once a round
  int64_t results = 0;    // their sums, or with ZeRO weights, to all
  int64_t moved = 0;      // sums to those who update whole matrices (ZeRO with Muon)
  int64_t rounds = 1;
  int64_t times = 1;  // that results are sent
  int64_t total() const { return rounds * gradients + times * results + moved; }
};
SentBytes sent_in_step(const TrainConfig& config, int64_t elements, int processes);

// Every process calls it: what each has waited so far in `seconds` of steps.
ProcessTimes gather_times(Communicator& processes, double waited, double seconds, int64_t sent_bytes);
// "2 processes: waiting 1.3 % of the time (rank 1) to 4.0 % (rank 0); ..." and a line end.
std::string process_line(const ProcessTimes& times);
ReportSection process_section(const ProcessTimes& times, const Communicator& processes);

}  // namespace gpt
