#pragma once

#include "base/clock.h"
#include "bench/workload.h"

namespace gpt {

WorkloadResult run_training_workload(const WorkloadContext& context, const Workload& workload);
WorkloadResult run_inference_workload(const WorkloadContext& context, const Workload& workload);

std::vector<int32_t> random_ids(int64_t n, int64_t vocab_size);

// Calls prepare() and run() once to warm up and workload.repeat times more, of which run() is timed and
// profiled.
template <class Prepare, class Run>
void repeat_timed(const WorkloadContext& context, const Workload& workload, ProfiledKernels& profile,
                  WorkloadResult& result, Prepare&& prepare, Run&& run) {
  for (int i = 0; i <= workload.repeat; ++i) {
    if (context.progress) context.progress(i);
    const auto before = profile.counters;
    prepare();
    profile.counters = before;
    const auto start = Clock::now();
    run();
    const double seconds = seconds_since(start);
    if (i == 0) {
      profile.clear();
    } else {
      result.seconds.push_back(seconds);
    }
  }
  if (context.progress) context.progress(workload.repeat + 1);
  result.ops = profile.times();
}

}  // namespace gpt
