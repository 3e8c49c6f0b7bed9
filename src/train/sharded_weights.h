#pragma once

#include <cstdint>
#include <vector>

#include "distributed/communicator.h"
#include "model/params.h"
#include "model/weight_source.h"
#include "train/buckets.h"

namespace gpt {

struct Model;

// Weights sharded over ranks (ZeRO 3, Rajbhandari et al. 2020, section 5.3). The weights of a layer are
// gathered before they are read and dropped afterwards, while the weights of the next layer are in flight.
// Weights keep their offsets in the buffer; the pages of dropped weights are freed. All ranks call the same
// functions in the same order.
class ShardedWeights : public WeightSource {
 public:
  // All references must outlive this object.
  ShardedWeights(const Model& model, const ParamBuffer& weights, const ShardMap& shard_map,
                 Communicator& processes);

  void begin(int64_t layer, int64_t next) override;
  // Takes part in the gathers of a forward pass, for a rank that has nothing to compute.
  void walk();
  // Drops all weights except this rank's part. Call it after the weights have changed.
  void drop();
  // The same for one parameter, which every rank has filled.
  void drop(int id);

  double waited_seconds() const { return waited_; }
  // Returns the peak bytes of weights during a pass, on the rank with the most.
  static int64_t bytes(const ParamTable& table, const ModelConfig& config, const ShardMap& shard_map);

 private:
  friend class LedWeights;
  struct Layer {
    ShardMap ranges;  // parameter ranges of the layer
    std::vector<Communicator::Handle> arriving = {};
    bool asked = false;  // whether the weights are here or in flight
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
  std::vector<Layer> layers_;  // the embeddings first
  Step current_ = kNoStep;
  bool leads_ = false;  // on rank 0: whether it announces every step to the other ranks
  double waited_ = 0;
};

// While it lives, only rank 0 reads weights, with layers in any order, to save a model or to sample. The
// other ranks send their parts; their constructor returns when rank 0 is done. Does nothing if `weights` is
// null.
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
