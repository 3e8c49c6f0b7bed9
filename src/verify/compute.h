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
  std::vector<int32_t> targets;  // [B,T], or empty: no loss, no gradients
  int64_t prompt = 4;            // ids of row 0 that the greedy continuation starts from
  int64_t greedy = 20;           // length of the greedy continuation
};

// A computed tensor, in double so that fp32 and fp64 runs are treated alike.
struct Computed {
  Shape shape;
  std::vector<double> values;
  bool integer = false;
};
using ComputedSet = std::map<std::string, Computed>;

// Runs the production layers in the given dtype (fp32, fp64, bf16, fp16) with the given kernels; names as in
// a golden file. `incremental_equal` is set to whether chunks through the cache gave the bits of the full
// evaluation.
ComputedSet compute_golden(const std::string& model_path, const GoldenInputs& inputs, DType dtype, Isa isa,
                           int threads, bool& incremental_equal, MakeBackend make_backend = host_backend);

}  // namespace gpt
