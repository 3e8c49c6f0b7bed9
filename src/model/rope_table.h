#pragma once

#include <vector>

#include "model/layer_config.h"
#include "tensor/buffer.h"

namespace gpt {

// cos and sin of position * frequency for positions [0, n_positions), computed in double and, with dtype =
// bf16 in the config, rounded to the nearest bf16 whatever type the table has.
// Llama-3 scaling as in transformers' "llama3" rope type.
class RopeTable {
 public:
  RopeTable() = default;
  RopeTable(const RopeConfig& config, int64_t n_positions, DType dtype,
            Device* device = nullptr);  // fp32 or fp64
  TensorView cos, sin;                  // [n_positions, head_dim/2]
  int64_t positions() const { return cos ? cos.rows() : 0; }
  // Replaces a row by that of a position that need not be in the table.
  void set_row(int64_t row, int64_t position);
  static int64_t bytes(const RopeConfig& config, int64_t n_positions, DType dtype);

 private:
  Buffer buffer_;
  std::vector<double> frequencies_;
  RopeDType rope_dtype_ = {};
};

// The head_dim/2 angular frequencies, scaling applied.
std::vector<double> rope_frequencies(const RopeConfig& config);

}  // namespace gpt
