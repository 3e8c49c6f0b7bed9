#include "train/sharded_weights.h"

#include <algorithm>

#include "base/clock.h"
#include "model/model.h"

namespace gpt {
namespace {

int64_t layer_of(const ParamSpec& spec, int64_t n_layer) {
  if (spec.layer >= 0) return spec.layer;
  return spec.role == Role::wte || spec.role == Role::wpe ? -1 : n_layer;
}

// What each process has of some elements.
void add_part(const ElementRange& elements, const Division& division, Division& to) {
  to.resize(division.size());
  for (size_t rank = 0; rank < division.size(); ++rank) {
    for (const ElementRange& range : division[rank]) {
      const ElementRange part = common(range, elements);
      if (part.size() > 0) to[rank].push_back(part);
    }
  }
}

}  // namespace

ShardedWeights::ShardedWeights(const Model& model, const ParamBuffer& weights, const Division& division,
                               Communicator& processes)
    : model_(model), weights_(weights), processes_(processes) {
  const ParamLayout layout(model.table);
  for (int64_t layer = -1; layer <= model.config.n_layer; ++layer)
    layers_[layer].asked = true;
  for (int id = 0; id < model.table.count(); ++id) {
    const int64_t at = layout.offset[static_cast<size_t>(id)];
    if (at >= 0)
      add_part({at, at + model.table[id].size()}, division,
               layers_[layer_of(model.table[id], model.config.n_layer)].ranges);
  }
}

std::vector<int64_t> ShardedWeights::read_by(int64_t layer) const {
  const bool reads_table = layer == model_.config.n_layer && model_.config.tie_embeddings;
  return reads_table ? std::vector<int64_t>{layer, -1} : std::vector<int64_t>{layer};
}

void ShardedWeights::ask(int64_t layer) {
  const auto found = layers_.find(layer);
  if (found == layers_.end() || found->second.asked) return;
  Layer& l = found->second;
  l.asked = true;
  size_t most = 0;
  for (const std::vector<ElementRange>& ranges : l.ranges)
    most = std::max(most, ranges.size());
  for (size_t i = 0; i < most; ++i) {
    std::vector<std::span<std::byte>> pieces;
    for (const std::vector<ElementRange>& ranges : l.ranges) {
      if (i >= ranges.size()) {
        pieces.emplace_back();
        continue;
      }
      const TensorView part = weights_.range(ranges[i].begin, ranges[i].end);
      pieces.emplace_back(static_cast<std::byte*>(part.data),
                          static_cast<size_t>(part.size()) * dtype_size(part.dtype));
    }
    l.arriving.push_back(gpt::gather(processes_, pieces, "gathering weights", Communicator::Channel::second));
  }
}

void ShardedWeights::wait_for(int64_t layer) {
  const auto found = layers_.find(layer);
  if (found == layers_.end()) return;
  waited_ += timed([&] {
    for (const Communicator::Handle& handle : found->second.arriving)
      finish(handle);
  });
  found->second.arriving.clear();
}

void ShardedWeights::drop(int64_t layer) {
  wait_for(layer);
  Layer& l = layers_.at(layer);
  if (!l.asked) return;
  l.asked = false;
  for (size_t rank = 0; rank < l.ranges.size(); ++rank) {
    if (rank == static_cast<size_t>(processes_.rank())) continue;
    for (const ElementRange& range : l.ranges[rank])
      weights_.drop(range.begin, range.end);
  }
}

void ShardedWeights::begin(int64_t layer, int64_t next) {
  std::vector<int64_t> wanted = read_by(layer), soon = read_by(next);
  wanted.insert(wanted.end(), soon.begin(), soon.end());
  for (const auto& [number, unused] : layers_) {
    if (std::ranges::find(wanted, number) == wanted.end()) drop(number);
  }
  for (const int64_t number : wanted)
    ask(number);
  for (const int64_t number : read_by(layer))
    wait_for(number);
}

void ShardedWeights::walk() {
  const int64_t n_layer = model_.config.n_layer;
  for (int64_t layer = -1; layer <= n_layer; ++layer)
    begin(layer, std::min(layer + 1, n_layer));
}

void ShardedWeights::gather() {
  for (const auto& [number, unused] : layers_)
    ask(number);
  for (const auto& [number, unused] : layers_)
    wait_for(number);
}

void ShardedWeights::drop() {
  for (const auto& [number, unused] : layers_)
    drop(number);
}

}  // namespace gpt
