#pragma once

// Arguments of ops (ops.h): the update of a training step.

#include <algorithm>
#include <cstdint>

#include "kernels/op_fields.h"
#include "kernels/step_state.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// Starts a step. Sets loss, norm and grad_scale to 0 and the loss scale to that of `scaling`. Sets the limits
// of loss and norm to outlier_z standard deviations above the means of their windows, if the windows are full
// and not constant.
struct BeginStepArgs {
  StepInputs inputs;
  DeviceSpan<StepState> step;  // [1]
  GPT_FIELDS(inputs, step)
};

// Computes the gradient norm from sums of squares, and the factor of the update. The update is skipped if the
// mean loss or the norm is not finite or above its limit. Gradients are scaled by min(1, clip_norm / (norm +
// 1e-6)), as in torch.nn.utils.clip_grad_norm_. Also counts the update, adjusts the loss scale of the next
// step, adds loss and norm to their windows, and halts the run if a value is not finite and loss scaling
// cannot help.
struct FinalizeGradNormArgs {
  DeviceSpan<const double> block_sums;  // results of sum_squares
  DeviceSpan<StepState> step;           // [1]
  bool clamped = false;  // set for the second call of a step, after clamp: only recomputes the clip factor
  GPT_FIELDS(block_sums, step, clamped)
};

// Settings of AdamW for a parameter.
struct AdamWRule {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double lr_scale = 1;  // factor of the step's learning rate
  bool operator==(const AdamWRule&) const = default;
};

// A range [begin, end) of elements with the same settings.
struct AdamWRange {
  int64_t begin, end;
  AdamWRule rule;
};

// AdamW (Loshchilov & Hutter 2019, Algorithm 2, with PyTorch's placement of eps). lr is the lr_scale of the
// range times the lr of the step, grad_scale is that of the step, and t is the number of updates, including
// this one:
//   g = grad_scale * grad; p -= lr wd p; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
//   p -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
// If grad_scale is 0, nothing changes.
struct AdamWArgs {
  TensorView param, grad, m, v;      // [elements], whole buffers
  HostSpan<AdamWRange> ranges;       // disjoint, in ascending order; other elements do not change
  DeviceSpan<const StepState> step;  // [1]
  GPT_FIELDS(param, grad, m, v, ranges, step)
};

// y = x x^T. Computes one triangle and mirrors it (BLAS: syrk). x is rounded to `compute` (fp32, bf16; fp64
// if all views are fp64).
struct SyrkArgs {
  TensorView y;  // [m,m]
  TensorView x;  // [m,n]
  DType compute = DType::f32;
  GPT_FIELDS(y, x, compute)
};

// Schedule of Muon's momentum: rises from `first` to `peak` over the first `warmup` steps, and falls to
// `last` from step `decline` to the end of the run.
struct MuonMomentum {
  double first = 0.95, peak = 0.95, last = 0.95;
  int64_t warmup = 0;
  int64_t decline = 0, steps = 0;  // steps: total steps of the run

  double at(int64_t step) const {
    const auto fraction = [](int64_t done, int64_t all) {
      return static_cast<double>(done) / static_cast<double>(all);
    };
    if (step < warmup) return first + (peak - first) * fraction(step, warmup);
    if (step < decline || steps <= decline) return peak;
    return peak + (last - peak) * fraction(std::min(step, steps) - decline, steps - decline);
  }
};

// Muon (Jordan et al. 2024), applied to each matrix separately. With G = grad_scale * grad, mu the momentum
// of the step and lr = step.lr:
//   M += (1 - mu) (G - M);  U = G + mu (M - G)
//   X = U, normalized; then five times X = a X + (b A + c A A) X with A = X X^T (with X^T instead of X if A
//   is smaller); the operands of these products are rounded to `compute`; p -= lr decay p + lr rate X
// torch is torch.optim.Muon: X = U / max(|U|, 1e-7), and Jordan's a, b, c. nanochat is MuonAdamW of nanochat
// 92d63d4: first, rows of U are scaled to equal norms (MuonEq, arXiv 2603.28254); X = U / (1.01 |U| + 1e-6),
// with a, b, c of Polar Express (Amsel et al. 2025); then X is scaled to the norm sqrt(min(rows, cols))
// (arXiv 2602.21545); its rows or columns, whichever are more, are divided by the root of a running mean of
// their squares, with the norm kept (NorMuon, Li et al. 2025); and p decays only where X has the sign of p,
// and this decay falls along half a cosine over momentum.steps.
enum class MuonForm : uint8_t { torch, nanochat };
struct MuonMatrix {
  TensorView param, grad, m;  // [rows,cols], dense
  TensorView v = {};          // [max(rows,cols)] nanochat: the running mean
  TensorView change;          // [1]: receives the sum of squares of the change of p
  double rate, decay;
};
struct MuonArgs {
  MuonForm form;
  HostSpan<MuonMatrix> matrices;  // of the same dtype and any shapes; must not overlap
  MuonMomentum momentum;
  DType compute = DType::f32;        // fp32 or bf16; fp64 if all views are fp64
  DeviceSpan<const StepState> step;  // [1]; nothing changes if its grad_scale is 0
  GPT_FIELDS(form, matrices, momentum, compute, step)
};

// Moving average: average += max(1 - decay, 1 / t) (x - average), where t is the number of updates, including
// this one. It starts as the mean of all values. Nothing changes if grad_scale of the step is 0.
struct EmaArgs {
  TensorView average, x;  // [elements]
  double decay;
  DeviceSpan<const StepState> step;  // [1]
  GPT_FIELDS(average, x, decay, step)
};

// Sums of squares of the last AdamW update and of the updated weights, for each range:
//   sums[2 i] of lr (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + wd p), sums[2 i + 1] of p
// in fp32 over runs of kSumRun elements and in double over the runs, in order.
struct UpdateSquaresArgs {
  TensorView param, m, v;            // [elements] fp32
  HostSpan<AdamWRange> ranges;       // ranges of elements of all three
  DeviceSpan<const StepState> step;  // [1]
  DeviceSpan<double> sums;           // [2 * ranges]
  GPT_FIELDS(param, m, v, ranges, step, sums)
};

}  // namespace gpt
