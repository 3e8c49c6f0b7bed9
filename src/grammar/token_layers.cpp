#include "grammar/token_layers.h"

#include <utility>

namespace gpt::grammar {

void set_bits(const TokenLayer& layer, std::span<uint64_t> allowed) {
  for (size_t word = 0; word < layer.words.size(); ++word)
    allowed[word] |= layer.words[word];
  for (const int32_t id : layer.ids)
    set_bit(allowed, id);
}

size_t bytes_of(std::span<const TokenLayer> layers) {
  size_t bytes = 0;
  for (const TokenLayer& layer : layers)
    bytes += 64 + layer.ids.size() * sizeof(int32_t) + layer.words.size() * sizeof(uint64_t);
  return bytes;
}

TokenLayer& LayerBuilder::layer_of(uint32_t distance) {
  TokenLayer& layer = layers_[distance];
  layer.distance = distance;
  return layer;
}

void LayerBuilder::add(uint32_t distance, std::span<const int32_t> ids) {
  TokenLayer& layer = layer_of(distance);
  layer.ids.insert(layer.ids.end(), ids.begin(), ids.end());
}

void LayerBuilder::add(uint32_t distance, const TokenLayer& added) {
  TokenLayer& layer = layer_of(distance);
  if (!added.words.empty()) layer.words.resize(words_);
  for (size_t word = 0; word < added.words.size(); ++word)
    layer.words[word] |= added.words[word];
  layer.ids.insert(layer.ids.end(), added.ids.begin(), added.ids.end());
}

// Converts the ids of a layer to a bit mask if the mask takes less memory, or if the layer already has a
// mask.
std::vector<TokenLayer> LayerBuilder::finish() {
  std::vector<TokenLayer> layers;
  for (auto& [distance, layer] : layers_) {
    if (!layer.words.empty() || layer.ids.size() > 2 * words_) {
      layer.words.resize(words_);
      for (const int32_t id : std::exchange(layer.ids, {}))
        set_bit(layer.words, id);
    }
    layer.ids.shrink_to_fit();
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace gpt::grammar
