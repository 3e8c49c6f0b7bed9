#pragma once

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "model/model_files.h"

namespace gpt {

// Options of verify_model.
struct VerifyOptions {
  std::string golden;        // golden.safetensors
  std::string write;         // file for the computed tensors, or "" to write none
  DType dtype = DType::f32;  // fp32, fp64, bf16 or fp16
  std::string bf16_errors;   // golden_bf16.json with tolerances for bf16 and fp16, or "" for fixed bounds
  Isa isa = best_isa();
  int threads = 1;
  MakeBackend backend = host_backend;
};

struct VerifyCheck {
  std::string name;  // tensor name, or a property such as "incremental = full"
  double error = 0;  // largest difference; for gradients, relative to the largest entry of the tensor
  double tolerance = 0;
  bool passed = false;
  std::string detail = {};  // position of the largest difference, with the expected and the computed value
};

struct VerifyResult {
  std::vector<VerifyCheck> checks;
  std::string exact_note;  // message about whether the golden values were also compared with fp64 results
  bool passed() const;
};

// Compares the results of a model with golden vectors: logits, loss, attention, gradients, four AdamW steps
// and a greedy continuation. Also compares incremental evaluation with full evaluation. docs/golden.md
// describes the layout of a golden file.
VerifyResult verify_model(const std::string& model_path, const VerifyOptions& options);

}  // namespace gpt
