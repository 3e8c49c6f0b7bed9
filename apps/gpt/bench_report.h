#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/limits.h"
#include "bench/workload.h"

namespace gpt {

// One workload with the machine's limits right before and right after it.
struct BenchRecord {
  Workload workload;
  WorkloadResult result;
  int64_t memory_measured = 0;  // peak above what was resident before the model came, in bytes
  MachineLimits before, after;
  // Bytes per second before every repeat and after the last one, where it is memory that counts.
  std::vector<double> memory = {};

  MachineLimits limits() const { return between(before, after); }
};

struct BenchModel {
  std::string name;
  bool random_weights;
  std::optional<DType> blocks;  // of a GGUF file
  ModelCounts counts;
};

// Everything that `gpt bench` found out.
struct BenchReport {
  int threads = 1;    // of a process ...
  int processes = 1;  // ... of so many; limits are of all together
  Isa isa = best_isa();
  std::vector<MachineLimits> limits;  // in the order of measuring
  std::optional<BenchModel> model;
  std::vector<BenchRecord> records;
};

std::string describe_workload(const Workload& w);  // "train fp32, 4 x 256 tokens"
nlohmann::json report_json(const BenchReport& report);
std::string report_text(const BenchReport& report);

}  // namespace gpt
