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

// What to run. Fields that a mode has no use for are ignored.
struct Workload {
  BenchMode mode = BenchMode::train;
  DType dtype = DType::f32;     // of the products: compute type of training, weights of inference
  std::optional<DType> blocks;  // inference: of most weights, where they are read as blocks of a file
  int64_t batch_size = 1;       // train: sequences per step, of all processes together
  int64_t n_ctx = 0;            // train: tokens per sequence
  bool recompute = false;       // train
  int64_t rows = 512;           // prefill: tokens of the prompt
  int64_t sequences = 16;       // batch: sequences decoded together
  int64_t tokens = 64;          // decode and batch: tokens per sequence
  int64_t depth = 0;            // inference: tokens that are cached before
  DType kv_dtype = DType::f32;  // inference: of cached keys and values; activations as inference_types says
  Repack repack = Repack::automatic;  // inference
  int repeat = 5;
};

double median(std::vector<double> values);  // of at least one

// What came out, for one repeat where nothing else is said.
struct WorkloadResult {
  int64_t tokens = 0;            // trained, read or written
  double flops = 0;              // by the counts of ModelCounts
  double bytes_read = 0;         // weights as packed, keys and values; inference only
  std::vector<double> seconds;   // of every repeat
  std::vector<OpTime> ops;       // of all repeats together
  int64_t memory_predicted = 0;  // bytes that the passes planned beforehand, weights included
  int64_t repacked = 0;          // bytes of weights of a mapped file that are in large pages since

  double median_seconds() const;
  double total_seconds() const;
  // Tokens per second of the median, the slowest and the fastest repeat.
  double tokens_per_second() const { return static_cast<double>(tokens) / median_seconds(); }
  double slowest() const;
  double fastest() const;
};

// Training writes to `weights`, to which the views of `model` point; inference has no need of it. `progress`
// is called before every repeat, the untimed first one (0) included, and after the last one. Several
// processes share training alone: each has a shard, and is timed from when all have come to the end of a
// step.
struct WorkloadContext {
  const Model& model;
  const ParamBuffer& weights;
  Backend backend;
  std::function<void(int repeat)> progress;
  Communicator* processes = &single_process();
};
WorkloadResult run_workload(const WorkloadContext& context, const Workload& workload);

// Random weights as good as any for measuring: fast to make, and products of them stay in range.
void fill_random_weights(ThreadPool& pool, const ParamTable& table, const ParamBuffer& weights);

// Bytes of weights that one decoding step reads, whatever the number of sequences: matrices as `isa` packs
// them in `dtype`, without tables that are only looked up.
int64_t weight_bytes(const Model& model, const KernelTable& kernels, DType dtype);
// The quantised type that most bytes of the weights are stored in; nothing where another one has more.
std::optional<DType> block_type(const Model& model);
// The keys that `tokens` tokens behind `before` cached ones see, all together.
double keys_seen(int64_t window, int64_t before, int64_t tokens);
// Operations of inference: `tokens` tokens appended to `before` cached ones, logits of the last one only
// (prefill) or of each.
double inference_flops(const ModelCounts& counts, int64_t before, int64_t tokens, bool all_logits);

}  // namespace gpt
