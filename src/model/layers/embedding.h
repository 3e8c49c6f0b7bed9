#pragma once

#include "model/layers/norm.h"

namespace gpt {

struct EmbeddingActs {
  TensorView raw;  // [N,C] before the embedding norm; only with embd_norm
  NormStats norm;
  void plan(Planner& planner, const ModelConfig& config);
};

// Token (+ learned position) embedding, dropout, optional norm.
class Embedding {
 public:
  Embedding(const ModelConfig& config, const ParamTable& table);

  // Writes out [N,C].
  Residual forward(const ForwardContext& pass, EmbeddingActs& acts, const TensorView& out) const;
  // dx [N,C] is the gradient of the output and is overwritten. add_to_wte: adds to the gradient of the token
  // matrix, because a tied head has already written its part.
  void backward(const BackwardContext& pass, const EmbeddingActs& acts, const TensorView& dx,
                bool add_to_wte) const;

 private:
  int wte_, wpe_;
  std::optional<Norm> norm_;  // has no parameters
  double dropout_;
};

}  // namespace gpt
