#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "model/model_files.h"

namespace gpt {

// Compares everything a model computes with golden vectors: logits, loss, attention, gradients, four AdamW
// steps, a greedy continuation, and incremental against full evaluation. The layout of a golden file is
// described in docs/golden.md.
struct VerifyOptions {
  std::string golden;        // golden.safetensors
  std::string write;         // where to write what was computed, or ""
  DType dtype = DType::f32;  // fp32, fp64, bf16 or fp16
  std::string bf16_errors;   // golden_bf16.json, or "": general bounds; for bf16 and fp16
  Isa isa = best_isa();
  int threads = 1;
  MakeBackend backend = host_backend;
};

struct VerifyCheck {
  std::string name;  // the tensor, or a property such as "incremental = full"
  double error = 0;  // largest difference (gradients: relative to the tensor's largest entry)
  double tolerance = 0;
  bool passed = false;
  std::string detail = {};  // where the largest difference is
};

struct VerifyResult {
  std::vector<VerifyCheck> checks;
  std::string exact_note;  // whether the golden values were also recomputed in fp64
  bool passed() const;
};

VerifyResult verify_model(const std::string& model_path, const VerifyOptions& options);

}  // namespace gpt
