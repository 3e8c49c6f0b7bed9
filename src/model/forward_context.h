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

// The sequences of a call.
struct SequenceSpans {
  DeviceSpan<const AttentionSeq> seqs;  // with a KV cache the same sequences once per window class
  DeviceSpan<const int32_t> pages =
      {};                         // page tables of all sequences and classes; absent without a KV cache
  int64_t max_q = 0, max_kv = 0;  // the most queries and keys of a sequence
  size_t classes = 1;             // window classes of the KV cache

  DeviceSpan<const AttentionSeq> of_class(size_t window_class) const {
    return seqs.subspan(window_class * (seqs.size() / classes), seqs.size() / classes);
  }
};

// The rows of a batch that produce output, in ascending order, and the sequences that they form. The rest of
// the last layer runs for these rows only.
struct OutputRows {
  DeviceSpan<const int64_t> rows;
  SequenceSpans sequences;
  std::span<const RowsAdapter> adapters = {};
};

// The tokens of one call: sequences one after another in `rows` rows.
struct TokenBatch {
  int64_t rows = 0;
  DeviceSpan<const int32_t> ids;        // [rows]
  DeviceSpan<const int32_t> positions;  // [rows]
  SequenceSpans sequences;
  const OutputRows* output_rows = nullptr;     // null: all rows
  std::span<const RowsAdapter> adapters = {};  // disjoint, in ascending order; other rows have no adapter
};

// Receives every intermediate result of a forward pass, in the order of computation.
class Observer {
 public:
  virtual ~Observer() = default;
  // Called with a result of a layer, -1 outside of the layers. The memory of the view is reused: copy it to
  // keep it.
  virtual void on_tensor(int64_t layer, std::string_view name, const TensorView& view) = 0;
  // Returns the place for the attention weights of a layer, [seqs,H,T,T]; absent: they are not computed.
  virtual TensorView attention_weights(int64_t) { return {}; }
};

class WeightSource;

// Called in the backward pass for parameters `first` to `last`, by id, whose gradients are final once `event`
// is reached.
using GradReadyHook = std::function<void(int first, int last, const DeviceEvent& event)>;

// The weights of a model, and how products read them.
struct WeightViews {
  std::span<const TensorView> views;  // by parameter id
  DType compute = DType::f32;         // type of products with matrices
  WeightCache* packed = nullptr;      // their packed forms
  bool in_place = false;              // matrices that are stored in type `compute` are not packed
  WeightSource* source = nullptr;  // loads weights that are not all in memory; they are packed for each use
  bool packs_per_use = false;      // no packed form is kept; quantized weights are dequantized to fp32
};

// Working memory of adapters.
struct AdapterMemory {
  TensorView low_rank = {};  // [N,2 rank]
  TensorView dropped = {};   // [N,in] the input after dropout, in training
};

// Inference with a cache: the rows of a layer's cache to which keys and values of the batch are written. They
// are the same for all layers of a window class.
struct CacheRows {
  const KvCache* cache = nullptr;
  DeviceSpan<const int64_t> rows = {};  // [classes,N]

  DeviceSpan<const int64_t> of_class(size_t window_class) const {
    const size_t n = rows.size() / cache->classes();
    return rows.subspan(window_class * n, n);
  }
};

// What the layers share during a forward pass.
struct ForwardContext {
  const ExecContext& ctx;
  WeightViews weights;
  TokenBatch batch = {};
  std::span<const RopeTable> rope_tables = {};  // as Layers::ropes
  AdapterMemory adapter_memory = {};
  CacheRows kv = {};
  bool row_invariant = false;  // bits of a row do not depend on the other rows
  Observer* observer = nullptr;
  // Training: seed and step number of dropout, [1]; absent: no dropout. Rows of this step before the batch.
  DeviceSpan<const StepState> step = {};
  int64_t first_row = 0;

  bool is_training() const { return bool(step); }
  const TensorView& weight(int id) const { return weights.views[static_cast<size_t>(id)]; }
  TensorView optional_weight(int id) const {
    return id < 0 ? TensorView{} : weights.views[static_cast<size_t>(id)];
  }
  // Announces that the weights of a layer are about to be read (WeightSource::begin).
  void begin_layer(int64_t layer, int64_t next) const;
  void show(int64_t layer, std::string_view name, const TensorView& view) const {
    if (observer != nullptr) observer->on_tensor(layer, name, view);
  }

  // The dropout of a site; p = 0 outside of training.
  DropoutKey dropout(double p, RandomSite site, int64_t layer) const {
    if (!step || p <= 0) return {};
    return {
        .p = p, .site = site, .layer = static_cast<uint32_t>(layer), .first_row = first_row, .step = step};
  }
};

// What the layers share during a backward pass: that of the forward pass, and where gradients go.
struct BackwardContext : ForwardContext {
  explicit BackwardContext(const ForwardContext& forward) : ForwardContext(forward) {}

  std::span<const TensorView> grads = {};          // by parameter id; a frozen parameter has an empty view
  std::span<const TensorView> adapter_grads = {};  // by id in the adapter's table, of which there is one
  bool accumulate = false;                         // += instead of = (second and later micro-batches)
  const GradReadyHook* ready = nullptr;

  TensorView grad(int id) const {
    return id < 0 || grads.empty() ? TensorView{} : grads[static_cast<size_t>(id)];
  }
  void gradient_ready(int id) const {
    if (ready != nullptr && id >= 0) (*ready)(id, id, ctx.device.record());
  }
};

// The residual stream between layers: x + branch, a sum that the next norm computes; or x alone.
struct Residual {
  TensorView x, branch = {};
  TensorView middle = {};  // input of the head: the stream after ModelConfig::middle_layer, if there is one
};

}  // namespace gpt
