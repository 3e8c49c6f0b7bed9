#pragma once

#include <vector>

#include "model/config.h"
#include "tensor/buffer.h"

namespace gpt {

// Keys and values of earlier tokens for a fixed number of sequences ("slots"). Memory comes in blocks of
// kBlock tokens; a slot's block table says where its tokens are. A slot holds the last `capacity` tokens:
// when a sequence grows past it, the oldest blocks are used again (sliding window).
class KvCache {
 public:
  static constexpr int64_t kBlock = 64;

  KvCache() = default;
  KvCache(const ModelConfig& config, int slots, int64_t capacity, DType dtype);

  int slots() const { return static_cast<int>(lengths_.size()); }
  int64_t capacity() const { return capacity_; }
  int64_t length(int slot) const { return lengths_[static_cast<size_t>(slot)]; }
  // The row of token t of a slot, in every layer.
  int64_t row(int slot, int64_t t) const;
  // Makes room for n more tokens of a slot and counts them.
  void extend(int slot, int64_t n);
  void reset(int slot);
  void copy(int from, int to);  // `to` becomes an equal, independent sequence
  const int32_t* blocks(int slot) const { return tables_[static_cast<size_t>(slot)].data(); }

  TensorView keys(int64_t layer) const { return keys_[static_cast<size_t>(layer)]; }      // [rows,kv_dim]
  TensorView values(int64_t layer) const { return values_[static_cast<size_t>(layer)]; }  // [rows,kv_dim]
  static int64_t bytes(const ModelConfig& config, int slots, int64_t capacity, DType dtype);

 private:
  int64_t capacity_ = 0;
  int64_t blocks_per_slot_ = 0;
  Buffer buffer_;
  std::vector<TensorView> keys_, values_;
  std::vector<int64_t> lengths_;
  std::vector<std::vector<int32_t>> tables_;
};

}  // namespace gpt
