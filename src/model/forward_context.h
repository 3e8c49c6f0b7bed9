#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "model/adapter.h"
#include "model/config.h"
#include "model/kv_cache.h"

namespace gpt {

class WeightCache;

// The rows of a batch whose results are wanted, in ascending order, and the sequences that they form. The
// last block is finished for these alone.
struct OutputRows {
  std::span<const int64_t> rows;
  std::span<const AttentionSeq> seqs;
  std::span<const RowsAdapter> adapters = {};
};

// The tokens of one call: sequences one after another in `rows` rows.
struct TokenBatch {
  int64_t rows = 0;
  const int32_t* ids = nullptr;        // [rows]
  const int32_t* positions = nullptr;  // [rows]
  std::span<const AttentionSeq> seqs;
  const OutputRows* kept = nullptr;            // null: all rows
  std::span<const RowsAdapter> adapters = {};  // apart, in ascending order; rows without one have none
};

// Is shown every intermediate result of a forward pass in the order in which they are made.
class Observer {
 public:
  virtual ~Observer() = default;
  // A result of a layer, -1 outside of the blocks. The view's memory is used again: copy what is to be kept.
  virtual void on_tensor(int64_t layer, std::string_view name, const TensorView& view) = 0;
  // Where the attention weights of a layer go, [seqs,H,T,T]; absent: they are not made.
  virtual TensorView attention_weights(int64_t) { return {}; }
};

class WeightSource;

using GradReadyHook = std::function<void(int first, int last)>;

// What the layers share during one forward or backward call.
struct ForwardContext {
  const ExecContext& ctx;
  const ModelConfig& config;
  std::span<const TensorView> weights;  // by parameter id
  TokenBatch batch = {};
  // What products with weight matrices are computed in, and where their packed forms are.
  DType compute = DType::f32;
  WeightCache* packed = nullptr;
  bool in_place = false;           // weights of that type are not packed
  WeightSource* source = nullptr;  // of weights that are not all in memory; they are packed per use
  bool packs_per_use = false;  // nor are any kept packed; rows of blocks are the numbers that they stand for
  TensorView rope_cos = {}, rope_sin = {};
  TensorView low_rank = {};  // [N,2 rank] what adapters work in
  TensorView dropped = {};   // [N,in] what they read in training, with dropout

  // Inference with a cache: keys and values of the batch go to these rows of each layer's cache.
  const KvCache* cache = nullptr;
  const int64_t* cache_rows = nullptr;
  bool row_invariant = false;  // bits of a row do not depend on the rows beside it
  Observer* observer = nullptr;

  // Training.
  bool training = false;  // dropout is on, statistics are saved
  uint64_t seed = 0;      // of dropout
  uint64_t step = 0;
  int64_t first_row = 0;                           // rows of this step before the batch
  std::span<const TensorView> grads = {};          // by parameter id; a frozen parameter has an empty view
  std::span<const TensorView> adapter_grads = {};  // by id in the adapter's table, of which there is one
  bool accumulate_grads = false;        // += where the default is = (second and later micro-batches)
  const GradReadyHook* done = nullptr;  // is told of the gradients of parameters first to last, by id

  const TensorView& weight(int id) const { return weights[static_cast<size_t>(id)]; }
  TensorView optional_weight(int id) const {
    return id < 0 ? TensorView{} : weights[static_cast<size_t>(id)];
  }
  TensorView grad(int id) const {
    return id < 0 || grads.empty() ? TensorView{} : grads[static_cast<size_t>(id)];
  }
  // The weights of a layer are about to be read (WeightSource::begin).
  void begin_layer(int64_t layer, int64_t next) const;
  void gradient_done(int id) const {
    if (done != nullptr && id >= 0) (*done)(id, id);
  }
  void show(int64_t layer, std::string_view name, const TensorView& view) const {
    if (observer != nullptr) observer->on_tensor(layer, name, view);
  }

  DropoutKey dropout(double p, RandomSite site, int64_t layer) const {
    if (!training || p <= 0) return {};
    return {p, dropout_key(seed, step, static_cast<uint32_t>(site), static_cast<uint32_t>(layer)), first_row};
  }
};

// The residual stream on its way through the layers: x + branch, a sum that is left to the norm that reads it
// next; or x alone, without a branch.
struct Residual {
  TensorView x, branch = {};
};

}  // namespace gpt
