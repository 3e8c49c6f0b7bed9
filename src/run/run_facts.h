#pragma once

#include <string>

#include "model/model.h"
#include "run/run_data.h"
#include "run/run_log.h"

namespace gpt {

struct Backend;

// Collects the sections of a run's report: configuration, parameters by component, data and machine.
RunFacts collect_facts(const RunConfig& config, const Model& model, const RunData& data,
                       const std::string& optimizer, const std::string& machine);

// Returns a description such as "AMD EPYC ..., 2 threads, avx512". Includes the number of NUMA nodes if there
// are several.
std::string machine_description(int threads, std::string_view isa);

// Measures the peak matmul throughput for `dtype`, in FLOP/s. Takes a few hundredths of a second.
double measure_peak_flops(const Backend& backend, DType dtype);

}  // namespace gpt
