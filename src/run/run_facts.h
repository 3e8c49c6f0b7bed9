#pragma once

#include <string>

#include "model/model.h"
#include "run/run_data.h"
#include "run/run_log.h"

namespace gpt {

struct Backend;

// The sections of a run's report: configuration, parameters by component, data, machine.
RunFacts collect_facts(const RunConfig& config, const Model& model, const RunData& data,
                       const std::string& optimizer, const std::string& machine);

// "AMD EPYC ..., 2 threads, avx512"; of several NUMA nodes it says how many.
std::string machine_description(int threads, std::string_view isa);

// Multiply-add rate of large products of a type in FLOP/s, measured for a few hundredths of a second.
double measure_peak_flops(const Backend& backend, DType dtype);

}  // namespace gpt
