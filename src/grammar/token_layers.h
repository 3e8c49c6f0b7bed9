#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace gpt::grammar {

// A set of tokens after which completing the text has the same cost.
struct TokenLayer {
  uint32_t distance;
  std::vector<int32_t> ids;
  // A bit mask of token ids, used by large layers. The layer contains the tokens in `ids` and in `words`.
  std::vector<uint64_t> words;
};

inline void set_bit(std::span<uint64_t> words, int32_t id) {
  words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
}

// Sets the bits of the layer's tokens in `allowed`, which must have at least as many words as the layer.
void set_bits(const TokenLayer& layer, std::span<uint64_t> allowed);

size_t bytes_of(std::span<const TokenLayer> layers);  // approximate memory usage

// Builds token layers. A token may be added more than once.
class LayerBuilder {
 public:
  explicit LayerBuilder(int64_t vocab_size) : words_(static_cast<size_t>((vocab_size + 63) / 64)) {}

  void add(uint32_t distance, std::span<const int32_t> ids);
  void add(uint32_t distance, const TokenLayer& layer);  // `layer.distance` is ignored
  std::vector<TokenLayer> finish();                      // sorted by increasing distance

 private:
  TokenLayer& layer_of(uint32_t distance);

  size_t words_;
  std::map<uint32_t, TokenLayer> layers_;
};

}  // namespace gpt::grammar
