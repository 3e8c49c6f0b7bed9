#pragma once

#include "model/layers/norm.h"

namespace gpt {

struct EmbeddingActs {
  TensorView raw;  // [N,C] input of the embedding norm; only with embd_norm
  NormStats norm;
  void plan(Planner& planner, const ModelConfig& config);
};

// Token embedding, optional learned position embedding, dropout, and optional norm.
class Embedding {
 public:
  Embedding(const ModelConfig& config, const ParamTable& table);

  // Writes the embeddings to `out` [N,C].
  Residual forward(const ForwardContext& pass, EmbeddingActs& acts, const TensorView& out) const;
  // dx [N,C] is the gradient of the output and is overwritten. add_to_wte: add to the gradient of the token
  // embedding instead of overwriting it; required with a tied head, which has already written its gradient.
  void backward(const BackwardContext& pass, const EmbeddingActs& acts, const TensorView& dx,
                bool add_to_wte) const;

 private:
  int wte_, wpe_;
  std::optional<Norm> norm_;  // the embedding norm has no parameters
  double dropout_;
};

}  // namespace gpt
