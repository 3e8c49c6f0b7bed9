#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "distributed/communicator.h"
#include "kernels/backend.h"
#include "kernels/profiled_kernels.h"
#include "model/model.h"
#include "model/model_counts.h"
#include "model/params.h"
#include "model/weight_pages.h"

namespace gpt {

enum class BenchMode : uint8_t { train, prefill, decode, batch };
inline constexpr BenchMode kBenchModes[] = {BenchMode::train, BenchMode::prefill, BenchMode::decode,
                                            BenchMode::batch};
inline std::string_view mode_name(BenchMode mode) {
  constexpr std::string_view kNames[] = {"train", "prefill", "decode", "batch"};
  return kNames[static_cast<size_t>(mode)];
}

// The parameters of a benchmark. Fields that a mode does not use are ignored.
struct Workload {
  BenchMode mode = BenchMode::train;
  DType dtype = DType::f32;  // dtype of matmuls: compute dtype in training, weight dtype in inference
  // Inference: the quantized dtype of most weights, if quantized weights are read from a file.
  std::optional<DType> blocks;
  int64_t batch_size = 1;  // train: sequences per step, over all ranks
  int64_t n_ctx = 0;       // train: tokens per sequence
  bool recompute = false;  // train: recompute activations
  int64_t rows = 512;      // prefill: tokens of the prompt
  int64_t sequences = 16;  // batch: sequences decoded together
  int64_t tokens = 64;     // decode and batch: tokens per sequence
  int64_t depth = 0;       // inference: tokens in the KV cache before the run
  // Inference: dtype of the KV cache. The dtype of the activations comes from inference_types.
  DType kv_dtype = DType::f32;
  Repack repack = Repack::automatic;  // inference: whether to repack weights
  int repeat = 5;
};

double median(std::vector<double> values);  // requires at least one value

// The result of a benchmark. Values are per repeat, unless the comment says otherwise.
struct WorkloadResult {
  int64_t tokens = 0;            // tokens trained, read or generated
  double flops = 0;              // floating-point operations, as counted by ModelCounts
  double bytes_read = 0;         // inference only: bytes of packed weights and of the KV cache
  std::vector<double> seconds;   // duration of every repeat
  std::vector<OpTime> ops;       // times of ops, summed over all repeats
  int64_t memory_predicted = 0;  // estimated memory in bytes, weights included
  int64_t repacked = 0;          // bytes of memory-mapped weights that were moved to huge pages

  double median_seconds() const;
  double total_seconds() const;
  // Tokens per second of the median, the slowest and the fastest repeat.
  double tokens_per_second() const { return static_cast<double>(tokens) / median_seconds(); }
  double slowest() const;
  double fastest() const;
};

// Inputs of run_workload. `weights` owns the memory of the weights in `model`. Training writes to it.
// Inference does not use `weights`. `progress` is called before every repeat, including the untimed repeat 0,
// and after the last one. Only training can use several ranks. Each rank has one shard, and a step is timed
// from the moment when all ranks have completed the previous step.
struct WorkloadContext {
  const Model& model;
  const ParamBuffer& weights;
  Backend backend;
  std::function<void(int repeat)> progress;
  Communicator* processes = &single_process();
};
WorkloadResult run_workload(const WorkloadContext& context, const Workload& workload);

// Fills the weights with random values for benchmarks. The values are fast to compute, and matmuls of them
// stay in range.
void fill_random_weights(ThreadPool& pool, const ParamTable& table, const ParamBuffer& weights);

// Returns the bytes of weights that one decoding step reads, for any number of sequences. The size of a
// matrix is its size after `kernels` has packed it for `dtype`. Does not count lookup tables.
int64_t weight_bytes(const Model& model, const KernelTable& kernels, DType dtype);
// Returns the dtype that uses the most bytes of the weights. Returns nothing if this dtype is not quantized.
std::optional<DType> block_type(const Model& model);
// Returns the total number of keys to which `tokens` tokens attend, if `before` cached tokens precede them.
double keys_seen(int64_t window, int64_t before, int64_t tokens);
// Returns the floating-point operations of inference for `tokens` tokens that follow `before` cached tokens.
// If all_logits is true, logits are computed for every token. Otherwise (prefill), logits are computed only
// for the last token.
double inference_flops(const ModelCounts& counts, int64_t before, int64_t tokens, bool all_logits);

}  // namespace gpt
