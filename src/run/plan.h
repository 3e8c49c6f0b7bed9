#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "run/run_data.h"
#include "train/train_config.h"

namespace gpt {

struct Backend;

// Compute-optimal number of training tokens per parameter (Hoffmann et al. 2022).
inline constexpr int64_t kOptimalTokensPerParameter = 20;

// Describes the run and the machine for which memory and time are estimated.
struct PlanSubject {
  RunConfig config;  // complete config with a known vocab_size
  bool evaluates = false;
  int64_t val_tokens = 0;  // number of validation tokens, which are all evaluated at the end; 0: unknown
  const KernelTable* kernels = &kernel_table(best_isa());
  int threads = 1;
  int processes = 1;                      // number of ranks
  double link_bytes_per_second = 1.25e9;  // bandwidth of each rank in each direction
  int64_t base_bytes = 0;                 // memory in use before the run: program, text and tokens
};

// Stores the estimated peak memory of a run, in bytes.
struct RunMemory {
  int64_t base = 0;
  int64_t weights = 0, gradients = 0, moments = 0;
  int64_t packed = 0;       // packed copies of the weight matrices
  int64_t activations = 0;  // activations of one micro-batch, including scratch memory
  int64_t evaluation = 0, sampling = 0;

  struct Part {
    const char *key, *label;
    int64_t bytes;
  };
  std::vector<Part> parts() const;
  int64_t total() const;
};
RunMemory plan_memory(const PlanSubject& subject);
// Returns the memory in bytes that packed weights need if matrices are packed again for each use. This is the
// size of the largest packed matrix of the forward pass plus the size of the largest packed matrix of the
// backward pass.
int64_t largest_packed(const ModelConfig& config, const KernelTable& kernels, DType dtype);

// optimizer_flops returns the FLOPs of the optimizer's matrix multiplications in one update (0 for AdamW).
// optimizer_share returns these FLOPs as a fraction of the FLOPs of a step.
double optimizer_flops(const RunConfig& config);
double optimizer_share(const RunConfig& config);

// A combination of settings with which the run fits into memory.
struct RunFit {
  TrainDType dtype;
  int64_t micro_batch;
  bool recompute;
  int64_t bytes;      // peak memory
  std::string flags;  // flags to add to the command
};
// Returns settings with which the run needs at most `available` bytes. The result contains one entry for each
// combination of dtype (the dtype of the run, and bf16) and recomputation (off and on). The micro-batch of an
// entry is the largest that divides the batch and fits into memory. Entries with recomputation are omitted if
// recomputation does not allow a larger micro-batch.
std::vector<RunFit> find_fits(const PlanSubject& subject, int64_t available);

// Stores the measured times of the parts of a run, in seconds.
struct RunRates {
  double micro_batch = 0;  // first micro-batch of a step, which packs the weights
  double accumulated = 0;  // each later micro-batch of a step
  double update = 0;       // norms, clipping and optimizer
  double spread = 0;       // standard deviation of micro_batch divided by micro_batch
  double first = 0;        // extra time of the first step, which touches most memory for the first time
  double evaluation = 0;   // one micro-batch of an evaluation
  double sample = 0;
  double bytes_per_second = 0;  // write bandwidth of checkpoints
  double file = 0;              // fixed time per file of a checkpoint
  double setup = 0;             // reading the text and initializing the weights
  std::string source;           // description of the measurement
};
// Returns the number of rows per micro-batch that can be measured in about `seconds`. The result is at least
// 1. `row_seconds` is the estimated time of a forward and backward pass over one row.
int64_t measured_rows(const PlanSubject& subject, double seconds, double row_seconds);
// Measures the parts of a run for about `seconds`, with `rows` rows per micro-batch. Writes temporary files
// to `folder` and removes them.
RunRates measure_rates(const PlanSubject& subject, const RunData& data, const Backend& backend,
                       double seconds, int64_t rows, const std::string& folder);

struct RunTime {
  double step = 0;  // time of one step
  double steps = 0, evaluation = 0, sampling = 0, saving = 0, setup = 0;
  double total() const { return steps + evaluation + sampling + saving + setup; }
};
// Estimates the communication of one step (docs/scaling.md).
struct ExchangePlan {
  int64_t sent_bytes = 0;  // bytes sent by each rank
  double seconds = 0;      // duration of all messages
  double exposed = 0;      // part of `seconds` that does not overlap with the backward pass
  double waiting = 0;      // time spent waiting for the slowest rank
};
ExchangePlan plan_exchange(const PlanSubject& subject, const RunRates& rates);
RunTime plan_time(const PlanSubject& subject, const RunRates& rates, int64_t parameters);

// Returns the median of the durations, because other programs that interfere with the measurement have little
// effect on the median. Returns 0 if the list is empty.
double typical_seconds(std::vector<double> seconds);
// Returns the standard deviation divided by the median. The standard deviation is estimated from the median
// absolute deviation. Returns 0 if the list is empty.
double relative_spread(std::vector<double> seconds);

}  // namespace gpt
