#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/limits.h"
#include "bench/workload.h"

namespace gpt {

// The result of one workload, and the machine limits measured right before and right after the workload.
struct BenchRecord {
  Workload workload;
  WorkloadResult result;
  int64_t memory_measured = 0;  // peak resident bytes minus the resident bytes before the model was created
  MachineLimits before, after;
  // Memory bandwidth in bytes per second before every repeat and after the last one. Only measured for
  // memory-bound workloads.
  std::vector<double> memory = {};

  MachineLimits limits() const { return between(before, after); }
};

struct BenchModel {
  std::string name;
  bool random_weights;
  std::optional<DType> blocks;  // most common quantized dtype of a GGUF file
  ModelCounts counts;
};

// All results of `gpt bench`.
struct BenchReport {
  int threads = 1;    // threads per process
  int processes = 1;  // number of processes; the limits are sums over all processes
  Isa isa = best_isa();
  std::vector<MachineLimits> limits;  // in order of measurement
  std::optional<BenchModel> model;
  std::vector<BenchRecord> records;
};

std::string describe_workload(const Workload& w);  // "train fp32, 4 x 256 tokens"
nlohmann::json report_json(const BenchReport& report);
std::string report_text(const BenchReport& report);

}  // namespace gpt
