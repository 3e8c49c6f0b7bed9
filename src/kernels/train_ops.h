#pragma once

// Argument structs of the ops (ops.h) for the optimizer step.

#include <algorithm>
#include <cstdint>

#include "kernels/op_fields.h"
#include "kernels/step_state.h"
#include "tensor/device_span.h"
#include "tensor/tensor.h"

namespace gpt {

// Starts a step. Sets loss, norm and grad_scale to 0. Sets loss_scale to the current scale in `scaling`. Sets
// max_loss to the mean of the loss window plus outlier_z standard deviations, and max_norm to the same limit
// for the norm window. A limit is infinite while its window is not full, or if all values in the window are
// equal.
struct BeginStepArgs {
  StepInputs inputs;
  DeviceSpan<StepState> step;  // [1]
  GPT_FIELDS(inputs, step)
};

// Computes the gradient norm from sums of squares, and grad_scale, the factor by which the update multiplies
// the gradients. The update is skipped if the mean loss or the norm is not finite or exceeds its limit.
// Gradients are scaled by min(1, clip_norm / (norm + 1e-6)), as in torch.nn.utils.clip_grad_norm_. The op
// also adjusts the loss scale of the next step. If the update is not skipped, the op counts it and adds the
// loss and the norm to the windows of recent values. The op halts the run if the loss or the norm is not
// finite and a smaller loss scale cannot fix this.
struct FinalizeGradNormArgs {
  DeviceSpan<const double> block_sums;  // results of sum_squares
  DeviceSpan<StepState> step;           // [1]
  bool clamped = false;  // true for the second call of a step, after clamp, which only recomputes the clip
                         // factor
  GPT_FIELDS(block_sums, step, clamped)
};

// AdamW settings of a parameter.
struct AdamWRule {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  double lr_scale = 1;  // factor of the step's learning rate
  bool operator==(const AdamWRule&) const = default;
};

// A range [begin, end) of elements that share their settings.
struct AdamWRange {
  int64_t begin, end;
  AdamWRule rule;
};

// AdamW (Loshchilov & Hutter 2019, Algorithm 2, with PyTorch's placement of eps). In the formulas, lr is the
// lr of the step times the lr_scale of the range, and t is the number of updates including this one:
//   g = grad_scale * grad; p -= lr wd p; m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2;
//   p -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
// The op does nothing if grad_scale is 0.
struct AdamWArgs {
  TensorView param, grad, m, v;      // [elements], whole buffers
  HostSpan<AdamWRange> ranges;       // disjoint, in ascending order; other elements do not change
  DeviceSpan<const StepState> step;  // [1]
  GPT_FIELDS(param, grad, m, v, ranges, step)
};

// Computes y = x x^T: one triangle of y is computed and then mirrored (BLAS: syrk). x is rounded to `compute`
// (fp32 or bf16; fp64 if all views are fp64).
struct SyrkArgs {
  TensorView y;  // [m,m]
  TensorView x;  // [m,n]
  DType compute = DType::f32;
  GPT_FIELDS(y, x, compute)
};

// Schedule of Muon's momentum. The momentum rises from `first` to `peak` over the first `warmup` steps, and
// falls from `peak` to `last` between step `decline` and the end of the run.
struct MuonMomentum {
  double first = 0.95, peak = 0.95, last = 0.95;
  int64_t warmup = 0;
  int64_t decline = 0, steps = 0;  // steps: total number of steps of the run

  double at(int64_t step) const {
    const auto fraction = [](int64_t done, int64_t all) {
      return static_cast<double>(done) / static_cast<double>(all);
    };
    if (step < warmup) return first + (peak - first) * fraction(step, warmup);
    if (step < decline || steps <= decline) return peak;
    return peak + (last - peak) * fraction(std::min(step, steps) - decline, steps - decline);
  }
};

// Muon (Jordan et al. 2024), applied to each matrix separately. Notation: G = grad_scale * grad, mu is the
// momentum of the step, and lr = step.lr. One update computes:
//   M += (1 - mu) (G - M);  U = G + mu (M - G)
//   X = U, normalized
//   five times: X = a X + (b A + c A A) X with A = X X^T
//   p -= lr decay p + lr rate X
// X is transposed if that makes A smaller. The operands of the matrix products are rounded to `compute`.
// There are two forms of Muon:
//   torch: torch.optim.Muon, with X = U / max(|U|, 1e-7) and Jordan's a, b, c.
//   nanochat: MuonAdamW of nanochat 92d63d4. It differs from torch in these steps:
//     - Rows of U are first scaled to equal norms (MuonEq, arXiv 2603.28254).
//     - X = U / (1.01 |U| + 1e-6), with a, b, c of Polar Express (Amsel et al. 2025).
//     - After the iterations, X is scaled to the norm sqrt(min(rows, cols)) (arXiv 2602.21545).
//     - The rows or columns of X, whichever are more, are divided by the square root of a running mean of
//       their squares; the norm of X is kept (NorMuon, Li et al. 2025).
//     - p decays only where X has the sign of p. The decay falls along half a cosine over momentum.steps.
enum class MuonForm : uint8_t { torch, nanochat };
struct MuonMatrix {
  TensorView param, grad, m;  // [rows,cols], dense
  TensorView v = {};          // [max(rows,cols)] running mean of squares; nanochat only
  TensorView change;          // [1]: receives the sum of squares of the change of p
  double rate, decay;
};
struct MuonArgs {
  MuonForm form;
  HostSpan<MuonMatrix> matrices;  // all of the same dtype, of any shapes; must not overlap
  MuonMomentum momentum;
  DType compute = DType::f32;        // fp32 or bf16; fp64 if all views are fp64
  DeviceSpan<const StepState> step;  // [1]; the op does nothing if its grad_scale is 0
  GPT_FIELDS(form, matrices, momentum, compute, step)
};

// Exponential moving average of the weights: average += max(1 - decay, 1 / t) (x - average), where t is the
// number of updates including this one. The average is therefore the plain mean during the first updates. The
// op does nothing if the grad_scale of the step is 0.
struct EmaArgs {
  TensorView average, x;  // [elements]
  double decay;
  DeviceSpan<const StepState> step;  // [1]
  GPT_FIELDS(average, x, decay, step)
};

// Computes sums of squares of the last AdamW update and of the updated weights, for each range:
//   sums[2 i]: sum of squares of lr (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + wd p)
//   sums[2 i + 1]: sum of squares of p
// Each run of kSumRun elements is added in fp32; the sums of the runs are added in double, in order.
struct UpdateSquaresArgs {
  TensorView param, m, v;            // [elements] fp32
  HostSpan<AdamWRange> ranges;       // ranges of elements, the same for all three views
  DeviceSpan<const StepState> step;  // [1]
  DeviceSpan<double> sums;           // [2 * ranges]
  GPT_FIELDS(param, m, v, ranges, step, sums)
};

}  // namespace gpt
