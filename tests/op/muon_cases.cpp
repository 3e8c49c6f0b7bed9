#include <fmt/format.h>

#include <cmath>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

void syrk_case(OpCaseList& list, int64_t m, int64_t n, DType compute) {
  list.add(fmt::format("{}x{} {}", m, n, dtype_name(compute)), [=](OpFrame& f) {
    const TensorView x = f.input({m, n}, normal_values(), 3);
    // All terms of a diagonal sum are positive, so the partial sums grow.
    const Tolerance sums = {sum_of(n).absolute, 2 * std::sqrt(static_cast<double>(n)) * kEpsilon};
    const TensorView y = f.output({m, m}, sums, 2);
    f.run(&KernelTable::syrk, {.y = y, .x = x, .compute = compute},
          f.kernels().syrk_scratch(m, n, f.dtype() == DType::f64 ? DType::f64 : compute));
  });
}

// Covers a single row, partial micro-tiles of every kernel, several tasks, and several blocks of k.
GPT_OP_CASES(syrk) {
  for (const DType compute : {DType::f32, DType::bf16}) {
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{0, 3},
                               {1, 1},
                               {1, 40},
                               {3, 7},
                               {5, 64},
                               {17, 16},
                               {31, 33},
                               {64, 64},
                               {100, 30},
                               {129, 70},
                               {250, 1100}})
      syrk_case(list, m, n, compute);
  }
}

// Returns the factor by which the iterations amplify an error in X. X is at most 1, and the factor is at most
// the product of the slopes at zero of the five iterations.
double slopes(MuonForm form) {
  return form == MuonForm::torch ? 485 : 990;
}

struct Matrix {
  MuonForm form;
  int64_t rows, cols;
  double scale = 0.5;  // of the gradients; 0: a skipped step
  double decay = 0.1;
  int64_t step = 3;
  DType compute = DType::f32;
  int count = 1;  // number of such matrices; with many, each matrix runs on one thread
};
// Uses a true normal distribution. The bf16 error depends on the smallest singular values of these random
// square matrices.
Fill gaussian(double std = 1) {
  return [=](int64_t, RandomStream& random) { return std * random.normal(); };
}

void muon_case(OpCaseList& list, const Matrix& t) {
  const bool nanochat = t.form == MuonForm::nanochat;
  list.add(
      fmt::format("{} {} {}x{} {} scale {} step {}", nanochat ? "nanochat" : "torch", t.count, t.rows, t.cols,
                  dtype_name(t.compute), t.scale, t.step),
      [=](OpFrame& f) {
        // In bf16 each rounding has an error of 2^-9. X is not small along the directions of its smallest
        // singular values.
        const double one = t.compute == DType::f32 ? kEpsilon * slopes(t.form) : 0x1p-9 * 32;
        const Tolerance of_param = {2 * one, 3 * kEpsilon}, of_mean = {4 * one, 4 * one};
        const int64_t longer = std::max(t.rows, t.cols);
        std::vector<MuonMatrix> matrices(static_cast<size_t>(t.count));
        for (MuonMatrix& x : matrices) {
          x.param = f.inout({t.rows, t.cols}, gaussian(), of_param);
          x.grad = f.input({t.rows, t.cols}, gaussian());
          x.m = f.inout({t.rows, t.cols}, gaussian(0.1), {4 * kEpsilon, 4 * kEpsilon});
          x.change = f.inout({1}, constant_values(2), {8 * one, 8 * one});
          if (nanochat) x.v = f.inout({longer}, uniform_values(0.5, 1), of_mean);
          x.rate = 0.4;
          x.decay = t.decay;
        }
        const StepState state{.step = t.step, .lr = 0.5, .grad_scale = t.scale};
        f.run(&KernelTable::muon,
              {.form = t.form,
               .matrices = matrices,
               .momentum = {.first = 0.85, .peak = 0.95, .last = 0.9, .warmup = 5, .decline = 8, .steps = 20},
               .compute = t.compute,
               .step = array_of(state)},
              muon_scratch(f.kernels(), t.rows, t.cols, f.dtype(), t.compute));
      });
}

GPT_OP_CASES(muon) {
  for (const MuonForm form : {MuonForm::torch, MuonForm::nanochat}) {
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 1},
                                     {1, 30},
                                     {30, 1},
                                     {17, 17},
                                     {16, 48},
                                     {70, 33},
                                     {33, 70},
                                     {130, 130}})
      muon_case(list, {.form = form, .rows = rows, .cols = cols});
    muon_case(list, {.form = form, .rows = 40, .cols = 50, .scale = 0});
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{20, 70}, {70, 20}})
      muon_case(list, {.form = form, .rows = rows, .cols = cols, .count = 9});
    for (const int64_t step : {0, 7, 14, 30})  // step of the momentum schedule
      muon_case(list, {.form = form, .rows = 20, .cols = 9, .scale = 2, .step = step});
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{64, 64}, {50, 90}, {90, 50}})
      muon_case(list, {.form = form, .rows = rows, .cols = cols, .compute = DType::bf16});
  }
}

// Covers the first update, updates with the weight 1 / t, later updates, and a skipped step.
GPT_OP_CASES(ema) {
  for (const int64_t n : {0, 1, 33, 9000}) {
    for (const int64_t updates : {1, 7, 5000}) {
      for (const double scale : {0.0, 0.5}) {
        list.add(fmt::format("{} update {} scale {}", n, updates, scale), [=](OpFrame& f) {
          const TensorView x = f.input({n}, normal_values());
          const TensorView y = f.inout({n}, normal_values(), {4 * kEpsilon, 4 * kEpsilon});
          const StepState state{.grad_scale = scale, .updates = updates};
          f.run(&KernelTable::ema, {.average = y, .x = x, .decay = 0.99, .step = array_of(state)});
        });
      }
    }
  }
}

}  // namespace
}  // namespace gpt::testing
