#pragma once

#include <cstdint>
#include <vector>

#include "distributed/communicator.h"
#include "model/params.h"
#include "model/weight_source.h"
#include "train/buckets.h"

namespace gpt {

struct Model;

// Weights of which each process keeps a part (ZeRO 3, Rajbhandari et al. 2020, section 5.3). Those of a layer
// are gathered before they are read and dropped afterwards, while those of the next one are on their way.
// They keep their places in the buffer, whose other pages are given back. All processes call the same
// functions in the same order.
class ShardedWeights : public WeightSource {
 public:
  // All must outlive this.
  ShardedWeights(const Model& model, const ParamBuffer& weights, const ShardMap& shard_map,
                 Communicator& processes);

  void begin(int64_t layer, int64_t next) override;
  // As a forward pass, for a process that has nothing to compute.
  void walk();
  // Only what this process keeps is left: to be called when weights have changed.
  void drop();
  // The same for a parameter that every process has filled.
  void drop(int id);

  double waited_seconds() const { return waited_; }
  // Of weights in the process that has most, while a pass reads them.
  static int64_t bytes(const ParamTable& table, const ModelConfig& config, const ShardMap& shard_map);

 private:
  friend class LedWeights;
  struct Layer {
    ShardMap ranges;  // of its parameters
    std::vector<Communicator::Handle> arriving = {};
    bool asked = false;  // whether its weights are here, or on their way
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
  bool leads_ = false;  // in rank 0: whether the others are told of every step
  double waited_ = 0;
};

// While it lives rank 0 alone reads weights, layers in any order: a model is saved, a sample drawn. The other
// processes send theirs, and come back from the constructor when it is done. Nothing without such weights.
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
