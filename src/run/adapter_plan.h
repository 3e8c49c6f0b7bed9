#pragma once

#include "model/adapter_settings.h"
#include "run/plan.h"

namespace gpt {

class LoadedModel;

// The estimate for a run that trains an adapter of a frozen model, with the batches and the dtype of a
// RunPlan, which trains all weights.
struct AdapterPlan {
  int64_t rank = 0, parameters = 0;
  RunMemory memory;  // of one process; the mapped pages of the model's files count as weights
  double step = 0;   // measured seconds per step; 0: not measured
};

// Estimates the run. base: must be loaded as stored (no dtype, MatrixOrder::as_stored). Throws
// invalid_argument if the settings do not fit the model.
AdapterPlan plan_adapter(const PlanSubject& subject, const LoadedModel& base,
                         const AdapterSettings& settings);

// Returns the seconds of one step. Runs steps for about `seconds`, with `rows` rows in a micro-batch.
double measure_adapter_step(const PlanSubject& subject, const LoadedModel& base,
                            const AdapterSettings& settings, const RunData& data, const Backend& backend,
                            double seconds, int64_t rows);

}  // namespace gpt
