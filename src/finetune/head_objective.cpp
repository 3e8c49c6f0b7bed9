#include "finetune/head_objective.h"

namespace gpt {
namespace {

// Indices of the buffers that HeadObjective::plan reserves. If the language model loss is used, these buffers
// follow the buffer of the language model loss.
enum Slot : size_t { kHidden, kDropped, kLogits, kDHidden, kDLogits };

const TensorView& slot(const ObjectiveCall& call, bool auxiliary, Slot which) {
  return call.memory[(auxiliary ? 1 : 0) + which];
}

}  // namespace

std::vector<ParamSpec> HeadObjective::parameters(const ModelConfig& c) const {
  return {{.name = "task_head.weight",
           .role = Role::objective,
           .layer = -1,
           .shape = {shape_.outputs, c.n_embd},
           .init = {InitRule::Kind::normal, c.init == Init::normal ? c.init_std : 0.02},
           .decay = true,
           .contiguous_with_previous = false,
           .component = Component::objective}};
}

void HeadObjective::plan(Planner& planner, const ModelConfig& c, std::deque<TensorView>& memory) const {
  if (shape_.auxiliary) language_modelling().plan(planner, c, memory);
  GPT_ASSERT(memory.size() == (shape_.auxiliary ? 1 : 0));
  const int64_t rows = planner.rows() / planner.shape().max_q / summed();
  planner.add_linear_scratch(rows, shape_.outputs, c.n_embd);
  const auto reserve = [&](const char* name, int64_t width) {
    planner.reserve(memory.emplace_back(), name, {rows, width}, planner.wide());
  };
  reserve("head input", c.n_embd);
  reserve("head input after dropout", c.n_embd);
  reserve("head logits", shape_.outputs);
  if (!planner.is_training()) return;
  reserve("d head input", c.n_embd);
  reserve("d head logits", shape_.outputs);
}

double HeadObjective::weight(const TrainBatch& batch, int64_t rows) const {
  double sum = 0;
  int64_t sample = 0;
  for (int64_t n = 0; n < rows; ++n) {
    if (batch.ids[n] != shape_.extract) continue;
    if (sample++ % shape_.samples == 0) sum += batch.weights != nullptr ? double{batch.weights[n]} : 1;
  }
  return sum;
}

void HeadObjective::run(const ObjectiveCall& call) const {
  if (shape_.auxiliary) language_modelling().run(call);
  const ExecContext& ctx = call.pass.ctx;
  const bool gradients = call.backward != nullptr;
  const auto memory = [&](Slot which) { return slot(call, shape_.auxiliary, which); };
  const TensorView hidden = memory(kHidden), logits = memory(kLogits);
  const PickedRows picked{
      .ids = call.pass.batch.ids, .samples = hidden.rows() * summed(), .id = shape_.extract};
  ctx.kernels.pick_rows(ctx, {.out = hidden, .x = call.hidden, .picked = picked});
  // Converts first_row from token rows to rows of the head, so that the dropout masks do not depend on the
  // size of the micro-batch.
  DropoutKey dropout = call.pass.dropout(shape_.dropout, RandomSite::dropout_task_head, 0);
  if (picked.samples > 0) dropout.first_row /= call.hidden.rows() / picked.samples * summed();
  TensorView x = hidden;
  if (dropout.p > 0) {
    x = memory(kDropped);
    ctx.kernels.dropout(ctx, {.out = x, .x = hidden, .dropout = dropout});
  }
  ctx.kernels.linear_forward(ctx, {.y = logits, .x = x, .w = call.pass.weight(call.first_param)});
  const bool choice = shape_.answer == HeadShape::Answer::choice;
  const auto by_example = [&](TensorView v) {
    if (!choice) return v;
    v.shape[0] /= shape_.samples;
    v.shape[1] = v.ld = shape_.samples;
    return v;
  };
  ctx.kernels.label_loss(ctx, {.loss = shape_.answer == HeadShape::Answer::number ? LabelLoss::squared_error
                                                                                  : LabelLoss::cross_entropy,
                               .logits = by_example(logits),
                               .labels = call.targets.labels,
                               .picked = picked,
                               .weights = call.targets.weights,
                               .losses = device_span<double>(call.losses),
                               .accumulate = shape_.auxiliary,
                               .dlogits = gradients ? by_example(memory(kDLogits)) : TensorView{},
                               .step = call.step});
  if (gradients) backward(call, picked, dropout);
}

void HeadObjective::backward(const ObjectiveCall& call, const PickedRows& picked,
                             const DropoutKey& dropout) const {
  const ExecContext& ctx = call.pass.ctx;
  const auto memory = [&](Slot which) { return slot(call, shape_.auxiliary, which); };
  const TensorView dlogits = memory(kDLogits), dhidden = memory(kDHidden);
  const TensorView& weight = call.pass.weight(call.first_param);
  if (const TensorView dw = call.backward->grad(call.first_param)) {
    ctx.kernels.linear_backward_weight(ctx, {.dw = dw,
                                             .dy = dlogits,
                                             .x = memory(dropout.p > 0 ? kDropped : kHidden),
                                             .accumulate = call.backward->accumulate,
                                             .compute = weight.dtype});
  }
  ctx.kernels.linear_backward_input(ctx, {.dx = dhidden, .dy = dlogits, .w = weight});
  if (dropout.p > 0) ctx.kernels.dropout(ctx, {.out = dhidden, .x = dhidden, .dropout = dropout});
  ctx.kernels.pick_rows_backward(
      ctx, {.dx = call.dhidden, .dout = dhidden, .picked = picked, .accumulate = shape_.auxiliary});
}

}  // namespace gpt
