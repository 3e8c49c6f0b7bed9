#pragma once

#include <cstdint>
#include <vector>

#include "distributed/communicator.h"
#include "model/params.h"
#include "model/weight_source.h"
#include "train/buckets.h"

namespace gpt {

struct Model;

// Shards the weights over ranks (ZeRO 3, Rajbhandari et al. 2020, section 5.3). The weights of a layer are
// gathered before they are read and dropped afterwards, while the weights of the next layer are being
// gathered. Weights keep their offsets in the buffer; the memory pages of dropped weights are freed. All
// ranks must call the same functions in the same order.
class ShardedWeights : public WeightSource {
 public:
  // All references must outlive this object.
  ShardedWeights(const Model& model, const ParamBuffer& weights, const ShardMap& shard_map,
                 Communicator& processes);

  void begin(int64_t layer, int64_t next) override;
  // Takes part in the gather operations of a forward pass. Called by a rank that has nothing to compute in
  // this pass.
  void walk();
  // Frees the memory of all weights that other ranks own. Call it after the weights have changed.
  void drop();
  // Frees the memory of the elements of parameter `id` that other ranks own. Call it after every rank has
  // filled the parameter.
  void drop(int id);

  double waited_seconds() const { return waited_; }
  // Returns the peak number of bytes of weights in memory during a pass, on the rank with the highest peak.
  static int64_t bytes(const ParamTable& table, const ModelConfig& config, const ShardMap& shard_map);

 private:
  friend class LedWeights;
  struct Layer {
    ShardMap ranges;  // the parameter elements of the layer that each rank owns
    std::vector<Communicator::Handle> arriving = {};
    bool asked = false;  // true if the weights are in memory or in flight
  };
  struct Step {
    int64_t layer, next;
    bool operator==(const Step&) const = default;
  };
  static constexpr int64_t kNowhere = kEmbeddings - 1;
  static constexpr Step kNoStep = {kNowhere, kNowhere};
  Layer& at(int64_t layer) { return layers_[static_cast<size_t>(layer + 1)]; }
  static std::vector<Step> steps_of_pass(int64_t n_layer);
  Step tell(Step step);
  std::span<std::byte> bytes_of(const ElementRange& range) const;
  void ask(Layer& layer);
  void wait_for(Layer& layer);
  void drop(Layer& layer);
  void drop_others(const ShardMap& ranges) const;

  const Model& model_;
  const ParamBuffer& weights_;
  Communicator& processes_;
  ParamLayout layout_;
  std::vector<Layer> layers_;  // one entry per layer; the embeddings come first
  Step current_ = kNoStep;
  bool leads_ = false;  // true on rank 0 while rank 0 announces every step to the other ranks
  double waited_ = 0;
};

// While an object of this class exists, only rank 0 reads the weights, and may read the layers in any order.
// This is used to save a model or to sample. The other ranks send their parts of the weights, and their
// constructor returns when rank 0 is done. Does nothing if `weights` is null.
class LedWeights {
 public:
  explicit LedWeights(ShardedWeights* weights);
  ~LedWeights();
  LedWeights(const LedWeights&) = delete;
  LedWeights& operator=(const LedWeights&) = delete;

 private:
  ShardedWeights* weights_;
};

}  // namespace gpt
