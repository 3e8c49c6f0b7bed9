#pragma once

#include "model/adapter_settings.h"
#include "run/plan.h"

namespace gpt {

class LoadedModel;

// Stores the estimate for training an adapter of a frozen model. The batches and the dtype are the same as in
// a RunPlan. A RunPlan is the estimate for training all weights.
struct AdapterPlan {
  int64_t rank = 0, parameters = 0;
  RunMemory memory;  // memory of one process; `weights` includes the memory-mapped model files
  double step = 0;   // measured seconds per step; 0: not measured
};

// Estimates the memory of a run that trains an adapter. `base` must be loaded as stored (no dtype conversion,
// MatrixOrder::as_stored). Throws invalid_argument if the adapter settings do not fit the model.
AdapterPlan plan_adapter(const PlanSubject& subject, const LoadedModel& base,
                         const AdapterSettings& settings);

// Measures the time of one adapter training step, in seconds. Runs steps for about `seconds` with `rows` rows
// per micro-batch.
double measure_adapter_step(const PlanSubject& subject, const LoadedModel& base,
                            const AdapterSettings& settings, const RunData& data, const Backend& backend,
                            double seconds, int64_t rows);

}  // namespace gpt
