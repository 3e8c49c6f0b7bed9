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
  DeviceSpan<const AttentionSeq> seqs;  // with a KV cache: all sequences of class 0, then of class 1, ...
  DeviceSpan<const int32_t> pages =
      {};                         // page tables of all sequences and classes; absent without a KV cache
  int64_t max_q = 0, max_kv = 0;  // maximum queries and keys of a sequence
  size_t classes = 1;             // window classes of the KV cache

  DeviceSpan<const AttentionSeq> of_class(size_t window_class) const {
    return seqs.subspan(window_class * (seqs.size() / classes), seqs.size() / classes);
  }
};

// The rows of a batch that produce output, in ascending order, and the sequences that they form. After its
// keys and values are computed, the last layer runs for these rows only.
struct OutputRows {
  DeviceSpan<const int64_t> rows;
  SequenceSpans sequences;
  std::span<const RowsAdapter> adapters = {};
};

// The tokens of a forward pass: `rows` rows, one sequence after another.
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
  // Called with a result of a layer (-1: outside the layers). The memory of the view is reused, so the
  // observer must copy values that it keeps.
  virtual void on_tensor(int64_t layer, std::string_view name, const TensorView& view) = 0;
  // Returns a view that receives the attention weights of a layer, [seqs,H,T,T]; absent: not computed.
  virtual TensorView attention_weights(int64_t) { return {}; }
};

class WeightSource;

// Called in the backward pass for parameters `first` to `last`, by id, whose gradients are final once `event`
// is reached.
using GradReadyHook = std::function<void(int first, int last, const DeviceEvent& event)>;

// The weights of a model, and how products read them.
struct WeightViews {
  std::span<const TensorView> views;  // by parameter id
  DType compute = DType::f32;         // dtype of matrix products
  WeightCache* packed = nullptr;      // packed copies of the matrices
  bool in_place = false;              // matrices that are stored in dtype `compute` are not packed
  WeightSource* source = nullptr;  // loads weights that are not all in memory; they are packed for each use
  bool packs_per_use = false;      // no packed copy is kept; quantized weights are dequantized to fp32
};

// Working memory of adapters.
struct AdapterMemory {
  TensorView low_rank = {};  // [N,2 rank]
  TensorView dropped = {};   // [N,in] the input after dropout, in training
};

// The KV cache and the rows to which a pass writes the keys and values of its batch. All layers of a window
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
  std::span<const RopeTable> rope_tables = {};  // as Layers::ropes
  AdapterMemory adapter_memory = {};
  CacheRows kv = {};
  bool row_invariant = false;  // the result of a row must not depend on the other rows, bit for bit
  Observer* observer = nullptr;
  // In training, [1]: the seed and step number for dropout; absent: no dropout.
  DeviceSpan<const StepState> step = {};
  int64_t first_row = 0;  // rows of the step that precede this batch; part of the dropout key

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

  // Returns the dropout key of a site; p is 0 outside training.
  DropoutKey dropout(double p, RandomSite site, int64_t layer) const {
    if (!step || p <= 0) return {};
    return {
        .p = p, .site = site, .layer = static_cast<uint32_t>(layer), .first_row = first_row, .step = step};
  }
};

// The arguments of a backward pass: those of the forward pass, and the views that receive gradients.
struct BackwardContext : ForwardContext {
  explicit BackwardContext(const ForwardContext& forward) : ForwardContext(forward) {}

  std::span<const TensorView> grads = {};          // by parameter id; a frozen parameter has an empty view
  std::span<const TensorView> adapter_grads = {};  // by id in the table of the adapter that is trained
  bool accumulate = false;                         // += instead of = (second and later micro-batches)
  const GradReadyHook* ready = nullptr;

  TensorView grad(int id) const {
    return id < 0 || grads.empty() ? TensorView{} : grads[static_cast<size_t>(id)];
  }
  void gradient_ready(int id) const {
    if (ready != nullptr && id >= 0) (*ready)(id, id, ctx.device.record());
  }
};

// The residual stream between layers: x + branch, which the next norm adds up; without a branch, x.
struct Residual {
  TensorView x, branch = {};
  TensorView middle = {};  // input of the head: the stream after ModelConfig::middle_layer, if there is one
};

}  // namespace gpt
