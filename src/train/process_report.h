#pragma once

#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "report/report_html.h"

namespace gpt {

// How the processes that share a run get on, as far as it is known: by rank.
struct ProcessTimes {
  std::vector<double> waited;  // seconds, for others and for messages
  std::vector<double> peak;    // bytes of memory
  double seconds = 0;          // of training steps, the same for all
  int64_t sent_bytes = 0;      // by each in a step
};

// Of what rank 0 sends in a step: gradients to those who add them, and the sums, or weights, to all.
int64_t sent_in_step(int64_t elements, int processes, int64_t rounds);

// Every process calls it: what each has waited so far in `seconds` of steps.
ProcessTimes gather_times(Communicator& processes, double waited, double seconds, int64_t sent_bytes);
// "2 processes: waiting 1.3 % of the time (rank 1) to 4.0 % (rank 0); ..." and a line end.
std::string process_line(const ProcessTimes& times);
ReportSection process_section(const ProcessTimes& times, const Communicator& processes);

}  // namespace gpt
