#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "model/adapter.h"
#include "model/kv_cache.h"
#include "model/rope_table.h"
#include "tensor/device.h"

namespace gpt {

class WeightCache;

// The rows, lengths and page tables of the sequences in a forward pass.
struct SequenceSpans {
  // With a KV cache, contains all sequences for window class 0, then all sequences for class 1, and so on.
  DeviceSpan<const AttentionSeq> seqs;
  DeviceSpan<const int32_t> pages = {};  // page tables; absent without a KV cache
  int64_t max_q = 0, max_kv = 0;         // maximum queries and keys of one sequence
  size_t classes = 1;                    // number of window classes in the KV cache

  DeviceSpan<const AttentionSeq> of_class(size_t window_class) const {
    return seqs.subspan(window_class * (seqs.size() / classes), seqs.size() / classes);
  }
};

// The rows of a batch that produce output, in ascending order, and the sequences that these rows form. The
// last layer computes keys and values for all rows, and everything else only for the output rows.
struct OutputRows {
  DeviceSpan<const int64_t> rows;
  SequenceSpans sequences;
  std::span<const RowsAdapter> adapters = {};
};

// The tokens of a forward pass. The batch has `rows` rows and contains one sequence after another.
struct TokenBatch {
  int64_t rows = 0;
  DeviceSpan<const int32_t> ids;        // [rows]
  DeviceSpan<const int32_t> positions;  // [rows]
  SequenceSpans sequences;
  const OutputRows* output_rows = nullptr;     // null: all rows produce output
  std::span<const RowsAdapter> adapters = {};  // disjoint ranges, ascending; other rows have no adapter
};

// Receives every intermediate result of a forward pass, in the order of computation.
class Observer {
 public:
  virtual ~Observer() = default;
  // Called with an intermediate result of a layer. Layer -1 marks results outside the layers, such as the
  // embedding. The memory of the view is reused, so an observer must copy the values that it keeps.
  virtual void on_tensor(int64_t layer, std::string_view name, const TensorView& view) = 0;
  // Returns a view [seqs,H,T,T] that receives the attention weights of a layer. If this function returns an
  // absent view, the attention weights are not computed.
  virtual TensorView attention_weights(int64_t) { return {}; }
};

class WeightSource;

// Called in the backward pass with the ids of the parameters `first` to `last`. The gradients of these
// parameters are final once the device reaches `event`.
using GradReadyHook = std::function<void(int first, int last, const DeviceEvent& event)>;

// The weights of a model, and settings for the matmuls that use the weights.
struct WeightViews {
  std::span<const TensorView> views;  // indexed by parameter id
  DType compute = DType::f32;         // dtype of matmuls
  WeightCache* packed = nullptr;      // cache of packed matrices
  // True if matrices that are stored in dtype `compute` are used without packing.
  bool in_place = false;
  // Loads the weights of each layer before they are read. Null if all weights are in memory. With a source,
  // matrices are packed for each use.
  WeightSource* source = nullptr;
  // True if weights are packed for each use and packed matrices are not kept. Packing converts quantized
  // weights to dtype `compute`.
  bool packs_per_use = false;
};

// Scratch memory of adapters.
struct AdapterMemory {
  TensorView low_rank = {};  // [N,2 rank] product of x and A, and its gradient
  TensorView dropped = {};   // [N,in] input after dropout; only in training
};

// The KV cache, and the cache rows that receive the keys and values of the batch. All layers of a window
// class use the same rows.
struct CacheRows {
  const KvCache* cache = nullptr;
  DeviceSpan<const int64_t> rows = {};  // [classes,N]

  DeviceSpan<const int64_t> of_class(size_t window_class) const {
    const size_t n = rows.size() / cache->classes();
    return rows.subspan(window_class * n, n);
  }
};

// The arguments of a forward pass that all layers share.
struct ForwardContext {
  const ExecContext& ctx;
  WeightViews weights;
  TokenBatch batch = {};
  std::span<const RopeTable> rope_tables = {};  // one table for each element of Layers::ropes
  AdapterMemory adapter_memory = {};
  CacheRows kv = {};
  bool row_invariant = false;  // true: a row's result is bit-identical regardless of the other rows
  Observer* observer = nullptr;
  // Seed and step number for dropout in training, [1]. Absent: no dropout.
  DeviceSpan<const StepState> step = {};
  int64_t first_row = 0;  // number of earlier rows in the training step; part of the dropout key

  bool is_training() const { return bool(step); }
  const TensorView& weight(int id) const { return weights.views[static_cast<size_t>(id)]; }
  TensorView optional_weight(int id) const {
    return id < 0 ? TensorView{} : weights.views[static_cast<size_t>(id)];
  }
  // Announces to the weight source that the weights of a layer are about to be read (WeightSource::begin).
  void begin_layer(int64_t layer, int64_t next) const;
  void show(int64_t layer, std::string_view name, const TensorView& view) const {
    if (observer != nullptr) observer->on_tensor(layer, name, view);
  }

  // Returns the dropout key for a dropout site in a layer. The dropout probability is 0 outside of training.
  DropoutKey dropout(double p, RandomSite site, int64_t layer) const {
    if (!step || p <= 0) return {};
    return {
        .p = p, .site = site, .layer = static_cast<uint32_t>(layer), .first_row = first_row, .step = step};
  }
};

// The arguments of a backward pass: the arguments of the forward pass, and the views that receive gradients.
struct BackwardContext : ForwardContext {
  explicit BackwardContext(const ForwardContext& forward) : ForwardContext(forward) {}

  std::span<const TensorView> grads = {};  // indexed by parameter id; empty view for a frozen parameter
  std::span<const TensorView> adapter_grads = {};  // indexed by id in the trained adapter's table
  bool accumulate = false;  // true: add to existing gradients (second and later micro-batches)
  const GradReadyHook* ready = nullptr;

  TensorView grad(int id) const {
    return id < 0 || grads.empty() ? TensorView{} : grads[static_cast<size_t>(id)];
  }
  void gradient_ready(int id) const {
    if (ready != nullptr && id >= 0) (*ready)(id, id, ctx.device.record());
  }
};

// The residual stream between layers, which is the sum x + branch. The next norm computes this sum. Without a
// branch, the stream is x.
struct Residual {
  TensorView x, branch = {};
  TensorView middle = {};  // stream after ModelConfig::middle_layer, for the head; absent if there is none
};

}  // namespace gpt
