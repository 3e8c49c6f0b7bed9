#pragma once

#include "model/adapter_settings.h"
#include "run/plan.h"

namespace gpt {

class LoadedModel;

// A run that trains an adapter beside a frozen model, where RunPlan is for all of its weights: the same
// batches, in the same type.
struct AdapterPlan {
  int64_t rank = 0, parameters = 0;
  RunMemory memory;  // of a process; the pages of the model's files count as its weights
  double step = 0;   // seconds, measured; 0: not
};

// base: loaded as it is stored (dtype nothing, MatrixOrder::as_stored). Throws invalid_argument for settings
// that do not fit it.
AdapterPlan plan_adapter(const PlanSubject& subject, const LoadedModel& base,
                         const AdapterSettings& settings);

// Seconds of one step, from steps that are made for about `seconds` on so many rows of a micro-batch.
double measure_adapter_step(const PlanSubject& subject, const LoadedModel& base,
                            const AdapterSettings& settings, const RunData& data, const Backend& backend,
                            double seconds, int64_t rows);

}  // namespace gpt
