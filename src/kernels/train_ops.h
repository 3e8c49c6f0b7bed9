#pragma once

// Arguments of ops (ops.h): the update of a training step.

#include <algorithm>
#include <cstdint>

#include "kernels/op_fields.h"
#include "kernels/step_state.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// Starts a step: loss, norm and grad_scale become 0, the loss scale is that of `scaling`, and the limits of
// loss and norm are outlier_z standard deviations above the means of their windows, if these are full and not
// constant.
struct BeginStepArgs {
  StepInputs inputs;
  DeviceSpan<StepState> step;  // [1]
  GPT_FIELDS(inputs, step)
};

// The norm of gradients from their sums of squares, and the factor of the update: the update is skipped if
// the mean loss or the norm is not finite or above its limit; gradients longer than clip_norm are shortened
// to it (torch.nn.utils.clip_grad_norm_: by min(1, clip_norm / (norm + 1e-6))). Counts the update, changes
// the loss scale for the next step, adds loss and norm to their windows, and halts the run if loss scaling
// cannot help.
struct FinalizeGradNormArgs {
  DeviceSpan<const double> block_sums;  // of sum_squares
  DeviceSpan<StepState> step;           // [1]
  bool clamped = false;  // the second call of a step, after clamp: only the clip factor is computed again
  GPT_FIELDS(block_sums, step, clamped)
};

// Settings of AdamW, which may differ by parameter.
struct AdamWRule {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double lr_scale = 1;  // of the step's learning rate
  bool operator==(const AdamWRule&) const = default;
};

// Elements [begin, end) of parameter buffers with the same settings.
struct AdamWRange {
  int64_t begin, end;
  AdamWRule rule;
};

// AdamW (Loshchilov & Hutter 2019, Algorithm 2, with PyTorch's placement of eps), with lr = lr_scale of the
// range times lr of the step, its grad_scale and t = updates, 1 for the first:
//   g = grad_scale * grad; p -= lr wd p; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
//   p -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
// With grad_scale = 0 nothing changes.
struct AdamWArgs {
  TensorView param, grad, m, v;      // [elements], whole buffers
  HostSpan<AdamWRange> ranges;       // in ascending order, disjoint; other elements do not change
  DeviceSpan<const StepState> step;  // [1]
  GPT_FIELDS(param, grad, m, v, ranges, step)
};

// y = x x^T; one triangle is computed and mirrored (BLAS: syrk). x is rounded to `compute` (fp32, bf16; fp64
// when all is fp64).
struct SyrkArgs {
  TensorView y;  // [m,m]
  TensorView x;  // [m,n]
  DType compute = DType::f32;
  GPT_FIELDS(y, x, compute)
};

// A schedule of Muon's momentum: from `first` to `peak` over the first `warmup` steps, and to `last` over the
// steps from `decline` on.
struct MuonMomentum {
  double first = 0.95, peak = 0.95, last = 0.95;
  int64_t warmup = 0;
  int64_t decline = 0, steps = 0;  // steps: of the run

  double at(int64_t step) const {
    const auto fraction = [](int64_t done, int64_t all) {
      return static_cast<double>(done) / static_cast<double>(all);
    };
    if (step < warmup) return first + (peak - first) * fraction(step, warmup);
    if (step < decline || steps <= decline) return peak;
    return peak + (last - peak) * fraction(std::min(step, steps) - decline, steps - decline);
  }
};

// Muon (Jordan et al. 2024) for matrices, each on its own. With G = grad_scale * grad, mu the momentum of the
// step and lr = step.lr:
//   M += (1 - mu) (G - M);  U = G + mu (M - G)
//   X = U, normalised; then five times X = a X + (b A + c A A) X with A = X X^T (or with X^T if that product
//   is smaller); these products are rounded to `compute` p -= lr decay p + lr rate X
// torch is torch.optim.Muon: X = U / max(|U|, 1e-7), and Jordan's a, b, c. nanochat is MuonAdamW of nanochat
// 92d63d4: rows of U get equal norms before (MuonEq, arXiv 2603.28254), X = U / (1.01 |U| + 1e-6), a, b, c of
// Polar Express (Amsel et al. 2025); then X gets the norm sqrt(min(rows, cols)) (arXiv 2602.21545); its rows
// or columns, whichever are more, are divided by the root of a running mean of their squares at the same norm
// (NorMuon, Li et al. 2025); and p decays only where X has its sign, along half a cosine over momentum.steps.
enum class MuonForm : uint8_t { torch, nanochat };
struct MuonMatrix {
  TensorView param, grad, m;  // [rows,cols], dense
  TensorView v = {};          // [max(rows,cols)] nanochat: the running mean
  TensorView change;          // [1]: gets the sum of squares of the change of p
  double rate, decay;
};
struct MuonArgs {
  MuonForm form;
  HostSpan<MuonMatrix> matrices;  // of one type and any shapes, without common memory
  MuonMomentum momentum;
  DType compute = DType::f32;        // fp32 or bf16; fp64 when all is fp64
  DeviceSpan<const StepState> step;  // [1]; nothing changes if its grad_scale is 0
  GPT_FIELDS(form, matrices, momentum, compute, step)
};

// A moving average: average += max(1 - decay, 1 / t) (x - average) with t = updates, 1 for the first, so that
// it starts as the mean of all values. Nothing changes if grad_scale of the step is 0.
struct EmaArgs {
  TensorView average, x;  // [elements]
  double decay;
  DeviceSpan<const StepState> step;  // [1]
  GPT_FIELDS(average, x, decay, step)
};

// The sums of squares of the last update by AdamW and of the weights after it, for each range:
//   sums[2 i] of lr (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + wd p), sums[2 i + 1] of p
// in fp32 over runs of kSumRun elements and in double over the runs, in order.
struct UpdateSquaresArgs {
  TensorView param, m, v;            // [elements] fp32
  HostSpan<AdamWRange> ranges;       // elements of all three
  DeviceSpan<const StepState> step;  // [1]
  DeviceSpan<double> sums;           // [2 * ranges]
  GPT_FIELDS(param, m, v, ranges, step, sums)
};

}  // namespace gpt
