#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "distributed/communicator.h"
#include "model/params.h"
#include "model/pass.h"
#include "train/pieces.h"

namespace gpt {

struct Model;

// Weights of which each process keeps a part (ZeRO 3, Rajbhandari et al. 2020, section 5.3). Those of a layer
// are gathered before they are read and dropped afterwards, while those of the next one are on their way.
// They keep their places in the buffer, whose other pages are given back.
class ShardedWeights : public WeightSource {
 public:
  // All must outlive this. Every process holds all weights at first, and calls the same functions in the same
  // order.
  ShardedWeights(const Model& model, const ParamBuffer& weights, const Division& division,
                 Communicator& processes);

  // The weights that a layer reads are there when it returns.
  void begin(int64_t layer, int64_t next) override;
  // As a pass that only reads the weights, for a process that has nothing to compute.
  void walk();
  // All weights are there, until the next layer begins or they are dropped.
  void gather();
  // Only what this process keeps is left. To be called when weights have changed.
  void drop();

  double waited_seconds() const { return waited_; }

 private:
  struct Layer {
    Division ranges;
    std::vector<Communicator::Handle> arriving = {};
    bool asked = false;  // whether its weights are here, or on their way
  };
  std::vector<int64_t> read_by(int64_t layer) const;
  void ask(int64_t layer);
  void wait_for(int64_t layer);
  void drop(int64_t layer);

  const Model& model_;
  const ParamBuffer& weights_;
  Communicator& processes_;
  std::map<int64_t, Layer> layers_;  // by number
  double waited_ = 0;
};

}  // namespace gpt
