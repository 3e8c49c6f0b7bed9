#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "run/run_data.h"
#include "train/train_config.h"

namespace gpt {

struct Backend;

// The compute-optimal number of training tokens per parameter (Hoffmann et al. 2022).
inline constexpr int64_t kOptimalTokensPerParameter = 20;

// The run and the machine that an estimate is for.
struct PlanSubject {
  RunConfig config;  // complete, with a known vocab_size
  bool evaluates = false;
  int64_t val_tokens = 0;  // tokens of the validation text, all evaluated at the end; 0: unknown
  const KernelTable* kernels = &kernel_table(best_isa());
  int threads = 1;
  int processes = 1;                      // number of ranks
  double link_bytes_per_second = 1.25e9;  // bandwidth of each rank, in each direction
  int64_t base_bytes = 0;                 // memory in use before the run: program, text, tokens
};

// The estimated peak memory of a run, in bytes.
struct RunMemory {
  int64_t base = 0;
  int64_t weights = 0, gradients = 0, moments = 0;
  int64_t packed = 0;       // packed copies of the weight matrices
  int64_t activations = 0;  // of one micro-batch, including scratch memory
  int64_t evaluation = 0, sampling = 0;

  struct Part {
    const char *key, *label;
    int64_t bytes;
  };
  std::vector<Part> parts() const;
  int64_t total() const;
};
RunMemory plan_memory(const PlanSubject& subject);
// Returns the bytes of the largest packed matrix of the forward pass plus that of the backward pass: the
// memory of packed weights if matrices are packed for each use.
int64_t largest_packed(const ModelConfig& config, const KernelTable& kernels, DType dtype);

// Return the FLOPs of the optimizer's matrix products in one update (0 for AdamW), and their share of the
// FLOPs of a step.
double optimizer_flops(const RunConfig& config);
double optimizer_share(const RunConfig& config);

// A set of settings that needs less memory.
struct RunFit {
  TrainDType dtype;
  int64_t micro_batch;
  bool recompute;
  int64_t bytes;      // at the peak
  std::string flags;  // flags to add to the command
};
// Returns, for each dtype (the run's, and bf16) with and without recomputation, the largest micro-batch that
// divides the batch and has a peak of at most `available` bytes. Omits recomputation if it does not allow a
// larger micro-batch.
std::vector<RunFit> find_fits(const PlanSubject& subject, int64_t available);

// The measured times of the parts of a run, in seconds.
struct RunRates {
  double micro_batch = 0;  // the first micro-batch of a step, which packs the weights
  double accumulated = 0;  // each further micro-batch
  double update = 0;       // norms, clipping, optimizer
  double spread = 0;       // standard deviation of micro_batch, relative to micro_batch
  double first = 0;        // extra time of the first step, which touches most of the memory first
  double evaluation = 0;   // one micro-batch of an evaluation
  double sample = 0;
  double bytes_per_second = 0;  // write rate of checkpoints
  double file = 0;              // fixed time for each file of a checkpoint
  double setup = 0;             // reading the text, initializing the weights
  std::string source;           // description of the measurement
};
// Returns the number of rows of a micro-batch that can be measured in about `seconds`, at least one.
// row_seconds: estimated time of one row, forward and backward.
int64_t measured_rows(const PlanSubject& subject, double seconds, double row_seconds);
// Measures the parts of a run for about `seconds`, with `rows` rows. Writes files to `folder` and removes
// them.
RunRates measure_rates(const PlanSubject& subject, const RunData& data, const Backend& backend,
                       double seconds, int64_t rows, const std::string& folder);

struct RunTime {
  double step = 0;  // one step
  double steps = 0, evaluation = 0, sampling = 0, saving = 0, setup = 0;
  double total() const { return steps + evaluation + sampling + saving + setup; }
};
// The messages of one step (docs/scaling.md).
struct ExchangePlan {
  int64_t sent_bytes = 0;  // by each rank
  double seconds = 0;      // duration of the messages
  double exposed = 0;      // part of `seconds` that does not overlap with the backward pass
  double waiting = 0;      // for the slowest rank
};
ExchangePlan plan_exchange(const PlanSubject& subject, const RunRates& rates);
RunTime plan_time(const PlanSubject& subject, const RunRates& rates, int64_t parameters);

// Returns the median, so that interference by other programs does not count; 0 if empty.
double typical_seconds(std::vector<double> seconds);
// Returns the standard deviation relative to the median, estimated from the median absolute deviation; 0 if
// empty.
double relative_spread(std::vector<double> seconds);

}  // namespace gpt
