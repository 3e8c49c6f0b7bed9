// Cases for the ops of task heads.

#include <fmt/core.h>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

struct Shape {
  int64_t samples, length, group, cols;
};
constexpr Shape kShapes[] = {{1, 1, 1, 1}, {2, 5, 1, 33}, {6, 3, 2, 17}, {12, 7, 3, 8}, {4, 9, 4, 700}};

std::string name(const Shape& s) {
  return fmt::format("{} samples of {} rows, {} together, {} wide", s.samples, s.length, s.group, s.cols);
}

// Token 7 occurs twice in two of three samples and does not occur in the third one.
PickedRows picked(OpFrame& f, const Shape& s) {
  const CaseArray<int32_t> ids = f.ints(s.samples * s.length, 0, 6);
  for (int64_t b = 0; b < s.samples; ++b) {
    if (b % 3 == 2) continue;
    ids[b * s.length + s.length / 2] = 7;
    ids[b * s.length] = 7;
  }
  return {.ids = ids, .samples = s.samples, .id = 7};
}

GPT_OP_CASES(pick_rows) {
  for (const Shape& s : kShapes) {
    list.add(name(s), [=](OpFrame& f) {
      const TensorView x = f.act_input({s.samples * s.length, s.cols}, with_specials(normal_values()), 3);
      f.run(&KernelTable::pick_rows, {.out = f.output({s.samples / s.group, s.cols}, sum_of(s.group), 2),
                                      .x = x,
                                      .picked = picked(f, s)});
    });
  }
}

GPT_OP_CASES(pick_rows_backward) {
  for (const Shape& s : kShapes) {
    for (const bool accumulate : {false, true}) {
      list.add(fmt::format("{}{}", name(s), accumulate ? ", added" : ""), [=](OpFrame& f) {
        const TensorView dout = f.input({s.samples / s.group, s.cols}, normal_values(), 1);
        const TensorView dx =
            f.act_inout({s.samples * s.length, s.cols}, normal_values(), {kEpsilon * 8, kEpsilon}, 2);
        f.run(&KernelTable::pick_rows_backward,
              {.dx = dx, .dout = dout, .picked = picked(f, s), .accumulate = accumulate});
      });
    }
  }
}

// Logits are of order one, and their exponentials have about ten roundings. One in seven labels is not a
// class, and one in five weights is 0.
void add_loss(OpCaseList& list, const Shape& s, LabelLoss loss, bool weighted) {
  const int64_t classes = loss == LabelLoss::cross_entropy ? s.cols : 1, rows = s.samples / s.group;
  list.add(fmt::format("{}, {}{}", name(s), loss == LabelLoss::cross_entropy ? "classes" : "numbers",
                       weighted ? ", weighted" : ""),
           [=](OpFrame& f) {
             const Tolerance tolerance{static_cast<double>(60 + classes) * kEpsilon, 8 * kEpsilon};
             const TensorView logits = f.input({rows, classes}, normal_values(), 3);
             std::vector<float> labels, weights;
             for (int64_t b = 0; b < s.samples; ++b)
               labels.push_back(static_cast<float>(b % 7 == 6 ? -1 : b % classes));
             for (int64_t n = 0; n < s.samples * s.length; ++n)
               weights.push_back(0.25f * static_cast<float>(n % 5));
             StepState step{.loss_scale = 8, .loss_weight = 0.5};
             const CaseArray<double> losses = f.output_doubles(s.samples * s.length, tolerance);
             LabelLossArgs a{.loss = loss,
                             .logits = logits,
                             .labels = array_of(labels),
                             .picked = picked(f, s),
                             .weights = weighted ? array_of(weights) : DeviceSpan<const float>(),
                             .losses = losses,
                             .accumulate = weighted,
                             .dlogits = f.output({rows, classes}, tolerance, 2),
                             .step = array_of(step)};
             std::fill_n(losses.data, losses.size, 3.0);
             f.run(&KernelTable::label_loss, a);
           });
}

GPT_OP_CASES(label_loss) {
  for (const Shape& s : kShapes) {
    for (const bool weighted : {false, true}) {
      add_loss(list, s, LabelLoss::cross_entropy, weighted);
      add_loss(list, s, LabelLoss::squared_error, weighted);
    }
  }
}

}  // namespace
}  // namespace gpt::testing
