#include "model/objective.h"

#include <algorithm>

namespace gpt {
namespace {

// Rows per chunk: bounded memory, large enough that the head's matrix is not read too often.
int64_t chunk_rows(const ModelConfig& c, int64_t rows) {
  constexpr int64_t kTargetElements = int64_t{26} << 20;  // 104 MiB of fp32 logits
  const int64_t fitting = std::max<int64_t>(64, kTargetElements / c.vocab_size / 64 * 64);
  return std::min(rows, fitting);
}

// Rows of another type at the addresses of the given ones.
TensorView in_place_of(const TensorView& wide, DType dtype) {
  TensorView v = wide;
  v.dtype = dtype;
  v.ld = wide.ld * static_cast<int64_t>(dtype_size(wide.dtype) / dtype_size(dtype));
  return v;
}

// The head and the loss in chunks of rows: the only logits that exist during training are those of one chunk.
class LanguageModelling : public Objective {
 public:
  void plan(Planner& planner, const ModelConfig& c, std::deque<TensorView>& memory) const override {
    const int64_t chunk = chunk_rows(c, planner.rows());
    planner.add_linear_scratch(chunk, c.vocab_size, c.n_embd);
    planner.reserve(memory.emplace_back(), "logits of one chunk", {chunk, c.vocab_size}, planner.wide());
  }

  double weight(const TrainBatch& batch, int64_t rows) const override {
    double sum = 0;
    for (int64_t n = 0; n < rows; ++n) {
      if (batch.targets[n] >= 0) sum += batch.weights != nullptr ? double{batch.weights[n]} : 1;
    }
    return sum;
  }

  void run(const ObjectiveCall& call) const override {
    const TensorView& memory = call.memory[0];
    const bool backward = !call.pass.grads.empty();
    const int64_t rows = call.hidden.rows(), chunk = memory.rows();
    Pass part = call.pass;  // later chunks add to what the first one wrote
    for (int64_t at = 0; at < rows; at += chunk) {
      const int64_t n = std::min(chunk, rows - at);
      const TensorView x = call.hidden.row_range(at, n), logits = memory.row_range(0, n);
      const TensorView dlogits = in_place_of(logits, x.dtype);
      const Linear& head = call.layers.head.linear();
      head.forward(part, x, logits);
      part.ctx.kernels.cross_entropy(
          part.ctx, {.logits = logits,
                     .targets = call.batch.targets + at,
                     .weights = call.batch.weights != nullptr ? call.batch.weights + at : nullptr,
                     .losses = call.losses.as<double>() + at,
                     .dlogits = backward ? dlogits : TensorView{},
                     .softcap = part.config.logit_softcap,
                     .step = call.step});
      if (backward) head.backward(part, x, dlogits, call.dhidden.row_range(at, n), false);
      part.accumulate_grads = true;
    }
  }
};

}  // namespace

const Objective& language_modelling() {
  static const LanguageModelling objective;
  return objective;
}

}  // namespace gpt
