#include "train/sharded_weights.h"

#include <algorithm>
#include <span>

#include "base/clock.h"
#include "base/ranges.h"
#include "model/model.h"

namespace gpt {
namespace {

// Adds the parts of `elements` that each rank owns to `to`, which is also a shard map.
void add_part(const ElementRange& elements, const ShardMap& shard_map, ShardMap& to) {
  to.resize(shard_map.size());
  for (size_t rank = 0; rank < shard_map.size(); ++rank) {
    for (const ElementRange& range : shard_map[rank]) {
      const ElementRange part = common(range, elements);
      if (part.size() > 0) to[rank].push_back(part);
    }
  }
}

// Splits a shard map by layer. The embeddings come first.
std::vector<ShardMap> divide_layers(const ParamTable& table, int64_t n_layer, const ShardMap& shard_map) {
  const ParamLayout layout(table);
  // A layer whose parameters are all frozen keeps an empty shard map.
  std::vector<ShardMap> layers(static_cast<size_t>(n_layer) + 2, ShardMap(shard_map.size()));
  for (int id = 0; id < table.count(); ++id) {
    const int64_t at = layout.offset[static_cast<size_t>(id)];
    if (at < 0) continue;
    const int64_t layer = WeightSource::layer_of(table[id], n_layer);
    add_part({at, at + table[id].size()}, shard_map, layers[static_cast<size_t>(layer + 1)]);
  }
  return layers;
}

// layers_read returns the layers whose weights are read while `layer` is computed. layers_in_memory also
// includes the next layer, whose weights are prefetched.
std::vector<int64_t> layers_read(int64_t layer, const ModelConfig& config) {
  if (layer == config.n_layer && config.tie_embeddings) return {layer, WeightSource::kEmbeddings};
  return {layer};
}
std::vector<int64_t> layers_in_memory(int64_t layer, int64_t next, const ModelConfig& config) {
  std::vector<int64_t> layers = layers_read(layer, config);
  if (std::ranges::find(layers, next) == layers.end()) layers.push_back(next);
  return layers;
}

}  // namespace

ShardedWeights::ShardedWeights(const Model& model, const ParamBuffer& weights, const ShardMap& shard_map,
                               Communicator& processes)
    : model_(model), weights_(weights), processes_(processes), layout_(model.table) {
  for (ShardMap& ranges : divide_layers(model.table, model.config.n_layer, shard_map))
    layers_.push_back({std::move(ranges)});
}

int64_t ShardedWeights::bytes(const ParamTable& table, const ModelConfig& config, const ShardMap& shard_map) {
  const std::vector<ShardMap> layers = divide_layers(table, config.n_layer, shard_map);
  const auto elements = [](const std::vector<ElementRange>& ranges) {
    return sum_of(ranges, &ElementRange::size);
  };
  int64_t most = 0;
  for (size_t rank = 0; rank < shard_map.size(); ++rank) {
    int64_t gathered = 0;
    for (const Step step : steps_of_pass(config.n_layer)) {
      int64_t others = 0;
      for (const int64_t layer : layers_in_memory(step.layer, step.next, config)) {
        const ShardMap& ranges = layers[static_cast<size_t>(layer + 1)];
        others += sum_of(ranges, elements) - elements(ranges[rank]);
      }
      gathered = std::max(gathered, others);
    }
    most = std::max(most, elements(shard_map[rank]) + gathered);
  }
  return most * static_cast<int64_t>(sizeof(float));
}

// Returns the steps of a forward pass. Each step uses the weights of one layer and prefetches the weights of
// the next layer. The last step computes the output head and keeps the last layer in memory, because the
// backward pass starts with this layer.
std::vector<ShardedWeights::Step> ShardedWeights::steps_of_pass(int64_t n_layer) {
  std::vector<Step> steps;
  for (int64_t layer = kEmbeddings; layer < n_layer; ++layer)
    steps.push_back({layer, layer + 1});
  steps.push_back({n_layer, n_layer - 1});
  return steps;
}

std::span<std::byte> ShardedWeights::bytes_of(const ElementRange& range) const {
  const TensorView part = weights_.range(range.begin, range.end);
  return {part.as<std::byte>(), static_cast<size_t>(part.size()) * dtype_size(part.dtype)};
}

void ShardedWeights::ask(Layer& layer) {
  if (layer.asked) return;
  layer.asked = true;
  size_t most = 0;
  for (const std::vector<ElementRange>& ranges : layer.ranges)
    most = std::max(most, ranges.size());
  for (size_t i = 0; i < most; ++i) {
    std::vector<std::span<std::byte>> pieces;
    for (const std::vector<ElementRange>& ranges : layer.ranges)
      pieces.push_back(i < ranges.size() ? bytes_of(ranges[i]) : std::span<std::byte>{});
    layer.arriving.push_back(gather(processes_, pieces, "gathering weights", Communicator::Channel::second));
  }
}

void ShardedWeights::wait_for(Layer& layer) {
  waited_ += timed([&] {
    for (const Communicator::Handle& handle : layer.arriving)
      finish(handle);
  });
  layer.arriving.clear();
}

void ShardedWeights::drop(Layer& layer) {
  wait_for(layer);
  if (!layer.asked) return;
  layer.asked = false;
  drop_others(layer.ranges);
}

void ShardedWeights::drop_others(const ShardMap& ranges) const {
  for (size_t rank = 0; rank < ranges.size(); ++rank) {
    if (rank == static_cast<size_t>(processes_.rank())) continue;
    for (const ElementRange& range : ranges[rank])
      weights_.drop(range.begin, range.end);
  }
}

void ShardedWeights::begin(int64_t layer, int64_t next) {
  const Step step = {layer, next};
  if (step == current_) return;
  if (leads_) tell(step);
  current_ = step;
  const std::vector<int64_t> kept = layers_in_memory(layer, next, model_.config);
  for (int64_t other = kEmbeddings; other <= model_.config.n_layer; ++other) {
    if (std::ranges::find(kept, other) == kept.end()) drop(at(other));
  }
  for (const int64_t each : kept)
    ask(at(each));
  for (const int64_t each : layers_read(layer, model_.config))
    wait_for(at(each));
}

// Broadcasts the step of rank 0 to all ranks.
ShardedWeights::Step ShardedWeights::tell(Step step) {
  broadcast(processes_, std::as_writable_bytes(std::span(&step, 1)), "broadcasting the current layer");
  return step;
}

void ShardedWeights::walk() {
  for (const Step step : steps_of_pass(model_.config.n_layer))
    begin(step.layer, step.next);
}

LedWeights::LedWeights(ShardedWeights* weights) : weights_(weights) {
  if (weights_ == nullptr) return;
  if (weights_->processes_.rank() == 0) {
    weights_->leads_ = true;
    return;
  }
  while (true) {
    const ShardedWeights::Step step = weights_->tell(ShardedWeights::kNoStep);
    if (step == ShardedWeights::kNoStep) return;
    weights_->begin(step.layer, step.next);
  }
}

LedWeights::~LedWeights() {
  if (weights_ == nullptr || !weights_->leads_) return;
  weights_->leads_ = false;
  weights_->tell(ShardedWeights::kNoStep);
}

void ShardedWeights::drop() {
  for (Layer& layer : layers_)
    drop(layer);
  current_ = kNoStep;
}

void ShardedWeights::drop(int id) {
  const int64_t begin = layout_.offset[static_cast<size_t>(id)];
  if (begin < 0) return;
  const ParamSpec& spec = model_.table[id];
  ShardMap ranges;
  add_part({begin, begin + spec.size()}, at(layer_of(spec, model_.config.n_layer)).ranges, ranges);
  drop_others(ranges);
}

}  // namespace gpt
