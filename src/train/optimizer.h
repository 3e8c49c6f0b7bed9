#pragma once

#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "model/params.h"

namespace gpt {

struct AdamWSettings {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
};

// Norms of all gradients.
struct GradientNorms {
  double total = 0;    // the global norm
  int first_bad = -1;  // the first parameter with a NaN or infinite gradient, or -1
};

// AdamW over a parameter buffer: decay on tensors of two or more dimensions only.
class Optimizer {
 public:
  Optimizer(const ParamTable& table, AdamWSettings settings, DType dtype);

  // Over the whole buffer in blocks of fixed size: the same bits for any number of threads.
  GradientNorms norms(const ExecContext& ctx, const ParamBuffer& grads);

  // One update with step.lr and step.grad_scale; t counts updates from 1.
  void update(const ExecContext& ctx, const ParamBuffer& weights, const ParamBuffer& grads,
              const StepParams& step, int64_t t) const;

  const AdamWSettings& settings() const { return settings_; }
  const ParamBuffer& m() const { return m_; }
  const ParamBuffer& v() const { return v_; }
  // "decay 0.1: 26 tensors, 10,813,440 parameters; no decay: 51 tensors, 21,504 parameters"
  std::string describe() const;

 private:
  const ParamTable& table_;
  AdamWSettings settings_;
  ParamBuffer m_, v_;
  std::vector<AdamWRange> ranges_;
  std::vector<double> block_sums_;
};

// torch.nn.utils.clip_grad_norm_: the factor min(1, limit / (norm + 1e-6)); 1 when limit is 0 (off).
double clip_factor(double norm, double limit);

}  // namespace gpt
