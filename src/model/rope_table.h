#pragma once

#include <vector>

#include "model/layer_config.h"
#include "tensor/buffer.h"

namespace gpt {

// Precomputed tables of cos(position * frequency) and sin(position * frequency) for positions [0,
// n_positions). The values are computed in double. If rope_dtype is bf16, they are rounded to the nearest
// bf16 value, regardless of the dtype of the table. Llama 3 scaling works like the rope type "llama3" in
// transformers.
class RopeTable {
 public:
  RopeTable() = default;
  // dtype: fp32 or fp64.
  RopeTable(const RopeConfig& config, int64_t n_positions, DType dtype, Device* device = nullptr);
  TensorView cos, sin;  // [n_positions, head_dim/2]
  int64_t positions() const { return cos ? cos.rows() : 0; }
  // Overwrites a row with the values of `position`. The position may be beyond the end of the table.
  void set_row(int64_t row, int64_t position);
  static int64_t bytes(const RopeConfig& config, int64_t n_positions, DType dtype);

 private:
  Buffer buffer_;
  std::vector<double> frequencies_;
  RopeDType rope_dtype_ = {};
};

// Returns the head_dim/2 angular frequencies after scaling.
std::vector<double> rope_frequencies(const RopeConfig& config);

}  // namespace gpt
