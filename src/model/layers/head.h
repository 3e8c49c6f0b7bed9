#pragma once

#include "model/layers/linear.h"
#include "model/layers/norm.h"

namespace gpt {

struct HeadActs {
  TensorView x;       // [N,C] the residual stream at its end: where the last block leaves it
  TensorView normed;  // [N,C] after the final norm
  NormStats norm;
  TensorView logits;  // [chunk,V]: the only logits that exist during training
  void plan(Planner& planner, const ModelConfig& config);  // all but x
};

// Final norm and output matrix, with the loss in row chunks.
class Head {
 public:
  Head(const ModelConfig& config, const ParamTable& table);

  // Rows per chunk: bounded memory, large enough that the matrix is not read too often.
  static int64_t chunk_rows(const ModelConfig& config, int64_t rows);

  // Stores the stream in acts.x and returns what the matrix reads [N,C]: acts.normed, or acts.x without a norm.
  TensorView forward_norm(const Pass& pass, HeadActs& acts, const Stream& in) const;

  // Softcapped logits of the given rows of normed [n,C] into logits [n,V].
  void logits(const Pass& pass, const TensorView& normed, const TensorView& logits) const;

  // Losses [N] of all rows, from what forward_norm returned. With pass.grads: also, scaled as the step says, the
  // gradients of the head's parameters and of normed in dx [N,C].
  void loss(const Pass& pass, HeadActs& acts, const TensorView& normed, const int32_t* targets,
            const StepState& step, double* losses, const TensorView& dx) const;
  // Through the final norm: dx [N,C] in place.
  void backward_norm(const Pass& pass, const HeadActs& acts, const TensorView& dx) const;

 private:
  bool has_norm_;
  Norm norm_;
  Linear linear_;
};

}  // namespace gpt
