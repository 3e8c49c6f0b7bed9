#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "model/model_files.h"

namespace gpt {

// The inputs of a golden file.
struct GoldenInputs {
  int64_t batch = 0, n_tokens = 0;
  std::vector<int32_t> ids;      // [B,T]
  std::vector<int32_t> targets;  // [B,T]; empty if the file has no loss and no gradients
  int64_t prompt = 4;            // number of ids of row 0 that form the prompt of the greedy continuation
  int64_t greedy = 20;           // length of the greedy continuation in tokens
};

// The values of a computed tensor. The values are stored as double, so that fp32 and fp64 runs use the same
// code.
struct Computed {
  Shape shape;
  std::vector<double> values;
  bool integer = false;
};
using ComputedSet = std::map<std::string, Computed>;

// Computes all tensors that a golden file may contain, and returns them with the names of the golden file.
// Runs the production layers in the given dtype (fp32, fp64, bf16 or fp16) with the given instruction set.
// Sets `incremental_equal` to true if an evaluation in chunks through the KV cache is bit-identical to a full
// evaluation.
ComputedSet compute_golden(const std::string& model_path, const GoldenInputs& inputs, DType dtype, Isa isa,
                           int threads, bool& incremental_equal, MakeBackend make_backend = host_backend);

}  // namespace gpt
