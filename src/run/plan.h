#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "run/run_data.h"
#include "train/train_config.h"

namespace gpt {

struct Backend;

// The tokens per parameter at which a given number of operations buys the lowest loss (Hoffmann et al. 2022).
inline constexpr int64_t kOptimalTokensPerParameter = 20;

// What a run on a machine is planned for.
struct PlanSubject {
  RunConfig config;  // complete, the vocabulary known
  bool evaluates = false;
  int64_t val_tokens = 0;  // of the validation text, which is evaluated as a whole at the end; 0: not known
  const KernelTable* kernels = &kernel_table(best_isa());
  int threads = 1;
  int processes = 1;                      // that share the run, over such a link ...
  double link_bytes_per_second = 1.25e9;  // ... in each direction, of each process
  int64_t base_bytes = 0;                 // that the process holds already: program, text, tokens
};

// Bytes of a run at its peak, known before its first step.
struct RunMemory {
  int64_t base = 0;
  int64_t weights = 0, gradients = 0, moments = 0;
  int64_t packed = 0;       // weight matrices once more, as the products read them
  int64_t activations = 0;  // of one micro-batch, scratch memory included
  int64_t evaluation = 0, sampling = 0;

  struct Part {
    const char *key, *label;
    int64_t bytes;
  };
  std::vector<Part> parts() const;
  int64_t total() const;
};
RunMemory plan_memory(const PlanSubject& subject);
// Of the largest product's matrix in either direction, where matrices are packed one after the other.
int64_t largest_packed(const ModelConfig& config, const KernelTable& kernels, DType dtype);

// Of the optimizer's products in one update, 0 of AdamW, which has none; and their share of all in a step.
double optimizer_flops(const RunConfig& config);
double optimizer_share(const RunConfig& config);

// A way to make a run smaller.
struct RunFit {
  TrainDType dtype;
  int64_t micro_batch;
  bool recompute;
  int64_t bytes;      // at the peak
  std::string flags;  // what to add to the command
};
// For each type (the run's, and bf16) with and without recomputation the largest micro-batch, a divisor of
// the batch, whose peak is at most `available` bytes; without those that change nothing for less.
std::vector<RunFit> find_fits(const PlanSubject& subject, int64_t available);

// Seconds of the parts of a run.
struct RunRates {
  double micro_batch = 0;  // the first of a step, which packs the weights
  double accumulated = 0;  // each further one
  double update = 0;       // norms, clipping, AdamW
  double spread = 0;       // of micro_batch: the standard deviation, as a part of it
  double first = 0;        // that the first step takes longer: it is the first to touch most of the memory
  double evaluation = 0;   // one micro-batch of it
  double sample = 0;
  double bytes_per_second = 0;  // of saving
  double file = 0;              // of every file that is saved, however small
  double setup = 0;             // reading the text, making the weights
  std::string source;           // what was measured, in words
};
// Rows of a micro-batch that can be measured in about `seconds`, at least one; row_seconds: what one probably
// takes, forward and backward.
int64_t measured_rows(const PlanSubject& subject, double seconds, double row_seconds);
// Runs parts of the run for about `seconds`, on so many rows; files are written to `folder` and removed.
RunRates measure_rates(const PlanSubject& subject, const RunData& data, const Backend& backend,
                       double seconds, int64_t rows, const std::string& folder);

struct RunTime {
  double step = 0;  // one
  double steps = 0, evaluation = 0, sampling = 0, saving = 0, setup = 0;
  double total() const { return steps + evaluation + sampling + saving + setup; }
};
// The messages of one step (docs/scaling.md).
struct ExchangePlan {
  int64_t sent_bytes = 0;  // by each process
  double seconds = 0;      // that they take
  double exposed = 0;      // of these, what no backward pass hides
  double waiting = 0;      // for the slowest of the processes
};
ExchangePlan plan_exchange(const PlanSubject& subject, const RunRates& rates);
RunTime plan_time(const PlanSubject& subject, const RunRates& rates, int64_t parameters);

// The median, so that what other programs do now and then does not count; 0 of none.
double typical_seconds(std::vector<double> seconds);
// The standard deviation as a part of the median, from the median distance to it; 0 of none.
double relative_spread(std::vector<double> seconds);

}  // namespace gpt
