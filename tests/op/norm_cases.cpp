#include <fmt/format.h>

#include <cmath>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

constexpr NormKind kKinds[] = {NormKind::layer, NormKind::rms};
constexpr int64_t kColumns[] = {1, 2, 15, 16, 17, 64, 65, 127, 768, 1601};

// A normalized value is of order one. The errors of a normalized value come from rstd, from the difference to
// the mean, and from three more roundings. rstd comes from a sum of positive squares, whose relative error is
// a few epsilons thanks to partial sums. The error does not depend on the distance of the mean from zero:
// kernels subtract a float close to the mean, which is exact, and correct for the remainder of the mean.
constexpr Tolerance kNormed = {12 * kEpsilon, 12 * kEpsilon};

void forward_case(OpCaseList& list, NormKind kind, int64_t rows, int64_t cols, double offset, bool all) {
  list.add(
      fmt::format("{} {}x{} offset {} {}", static_cast<int>(kind), rows, cols, offset, all ? "all" : "bare"),
      [=](OpFrame& f) {
        NormArgs a{};
        a.kind = kind;
        a.eps = 1e-5;
        a.x = f.act_input({rows, cols}, normal_values(1, offset), all ? 3 : 0);
        a.out = f.act_output({rows, cols}, kNormed, all ? 2 : 0);
        if (all) {
          a.gain = f.input({cols}, normal_values(0.2, 1));
          a.bias = f.input({cols}, normal_values(0.2));
          a.mean = f.output({rows}, {4 * kEpsilon, 4 * kEpsilon});
          a.rstd = f.output({rows}, relative(10));
          if (kind == NormKind::rms) a.bias = a.mean = {};
        }
        f.run(&KernelTable::norm_forward, a);
      });
}

GPT_OP_CASES(norm_forward) {
  for (NormKind kind : kKinds) {
    for (int64_t cols : kColumns) {
      // With one channel, x - mean is pure rounding error, which rstd = 1/sqrt(eps) amplifies.
      const double offset = kind == NormKind::layer && cols > 2 ? 100 : 0;
      forward_case(list, kind, 3, cols, 0, true);
      forward_case(list, kind, 1, cols, offset, false);
    }
    forward_case(list, kind, 0, 64, 0, true);
    forward_case(list, kind, 200, 384, 1, true);
    for (bool in_place : {false, true}) {
      list.add(fmt::format("{} add in_place {}", static_cast<int>(kind), in_place), [=](OpFrame& f) {
        NormArgs a{};
        a.kind = kind;
        a.eps = 1e-6;
        a.x = in_place ? f.inout({50, 403}, normal_values(), relative(1))
                       : f.input({50, 403}, normal_values(), 1);
        a.add = f.act_input({50, 403}, normal_values(), 4);
        a.sum = in_place ? a.x : f.output({50, 403}, relative(1));
        a.out = f.act_output({50, 403}, kNormed);
        a.gain = f.input({403}, normal_values());
        a.rstd = f.output({50}, relative(10));
        f.run(&KernelTable::norm_forward, a);
      });
    }
    // The values are small integers, whose sums are exact in every dtype.
    list.add(fmt::format("{} add, one type", static_cast<int>(kind)), [=](OpFrame& f) {
      const Fill whole = [](int64_t, RandomStream& random) { return std::round(3 * random.normal()); };
      f.run(&KernelTable::norm_forward, {.kind = kind,
                                         .eps = 1e-6,
                                         .out = f.act_output({50, 403}, kNormed, 1),
                                         .x = f.act_input({50, 403}, whole, 2),
                                         .add = f.act_input({50, 403}, whole),
                                         .sum = f.act_output({50, 403}, {})});
    });
    for (bool add : {false, true}) {
      list.add(fmt::format("{} all fp32 but {}", static_cast<int>(kind), add ? "add" : "out"),
               [=](OpFrame& f) {
                 NormArgs a{.kind = kind, .eps = 1e-6};
                 a.x = f.input({33, 130}, normal_values());
                 a.out = add ? f.output({33, 130}, kNormed) : f.act_output({33, 130}, kNormed);
                 a.add = add ? f.act_input({33, 130}, normal_values()) : f.input({33, 130}, normal_values());
                 a.sum = f.output({33, 130}, relative(1));
                 f.run(&KernelTable::norm_forward, a);
               });
    }
    list.add(fmt::format("{} NaN and infinity", static_cast<int>(kind)), [=](OpFrame& f) {
      const TensorView x = f.act_input({40, 7}, with_specials(normal_values()));
      f.run(&KernelTable::norm_forward,
            {.kind = kind, .eps = 1e-6, .out = f.act_output({40, 7}, kNormed), .x = x});
    });
  }
}

// The optional arguments of a case.
struct Optional {
  bool gain, bias, residual;
};
constexpr Optional kBare = {false, false, false}, kAll = {true, true, true};

// If `stream`, then x, dx and dresidual belong to the fp32 residual stream, and only dout is an activation.
void backward_case(OpCaseList& list, NormKind kind, int64_t rows, int64_t cols, Optional has,
                   bool stream = false) {
  list.add(fmt::format("{} {}x{} gain {} bias {} residual {}{}", static_cast<int>(kind), rows, cols, has.gain,
                       has.bias, has.residual, stream ? " stream" : ""),
           [=](OpFrame& f) {
             const bool all = has.residual;
             const auto input = [&](int64_t ld_extra) {
               return stream ? f.input({rows, cols}, normal_values(), ld_extra)
                             : f.act_input({rows, cols}, normal_values(), ld_extra);
             };
             const bool layer = kind == NormKind::layer;
             NormBackwardArgs a{};
             a.kind = kind;
             // The sums over a row have terms g and g y of order one and are divided by cols, so their errors
             // shrink with cols. rstd is at most 2 in these cases. The remaining errors are roundings of
             // terms of order one.
             const Tolerance tolerance = {64 * kEpsilon, 8 * kEpsilon};
             a.dx = stream ? f.output({rows, cols}, tolerance) : f.act_output({rows, cols}, tolerance, all);
             a.dout = f.act_input({rows, cols}, normal_values(), all ? 2 : 0);
             a.x = input(all ? 3 : 0);
             if (layer) a.mean = f.input({rows}, normal_values(0.1));
             a.rstd = f.input({rows}, uniform_values(0.5, 2));
             if (has.gain) a.gain = f.input({cols}, normal_values(0.2, 1));
             if (has.residual) a.dresidual = input(5);
             if (has.gain) a.dgain = f.inout({cols}, normal_values(), sum_of(rows, 2));
             if (has.bias && layer) a.dbias = f.inout({cols}, normal_values(), sum_of(rows));
             f.run(&KernelTable::norm_backward, a, f.kernels().norm_backward_scratch(rows, cols, f.dtype()));
           });
}

GPT_OP_CASES(norm_backward) {
  for (NormKind kind : kKinds) {
    for (int64_t cols : kColumns) {
      backward_case(list, kind, 5, cols, kAll);
      backward_case(list, kind, 1, cols, kBare);
    }
    for (int64_t rows : {0, 32, 33, 257}) {
      backward_case(list, kind, rows, 129, kAll);
      backward_case(list, kind, rows, 100, kAll, true);
    }
    // There are more rows than fit into one partial sum.
    for (const bool residual : {false, true}) {
      for (const Optional has :
           {Optional{false, false, residual}, {true, false, residual}, {true, true, residual}})
        backward_case(list, kind, 37, 6, has);
    }
    for (bool over_dout : {false, true}) {
      list.add(fmt::format("{} dx over {}", static_cast<int>(kind), over_dout ? "dout" : "dresidual"),
               [=](OpFrame& f) {
                 const Tolerance tolerance = {64 * kEpsilon, 8 * kEpsilon};
                 NormBackwardArgs a{};
                 a.kind = kind;
                 a.dx = f.act_inout({70, 300}, normal_values(), tolerance);
                 const TensorView other = f.act_input({70, 300}, normal_values());
                 a.dout = over_dout ? a.dx : other;
                 a.dresidual = over_dout ? other : a.dx;
                 a.x = f.act_input({70, 300}, normal_values());
                 a.gain = f.input({300}, normal_values());
                 a.mean = f.input({70}, normal_values(0.1));
                 a.rstd = f.input({70}, uniform_values(0.5, 2));
                 a.accumulate = over_dout;
                 a.dgain = over_dout ? f.inout({300}, normal_values(), sum_of(70, 2))
                                     : f.output({300}, sum_of(70, 2));
                 if (kind == NormKind::layer && !over_dout) a.dbias = f.output({300}, sum_of(70));
                 f.run(&KernelTable::norm_backward, a, f.kernels().norm_backward_scratch(70, 300, f.dtype()));
               });
    }
  }
}

GPT_OP_CASES(qk_norm_forward) {
  for (int64_t dim : {2, 8, 15, 16, 20, 64, 128}) {
    for (int64_t rows : {0, 1, 60}) {
      list.add(fmt::format("{} rows, dim {}", rows, dim), [=](OpFrame& f) {
        const TensorView x = f.act_inout({rows, 5 * dim}, normal_values(), {4 * kEpsilon, 12 * kEpsilon}, 7);
        const TensorView rstd = rows == 1 ? TensorView{} : f.output({rows, 5}, relative(10));
        f.run(&KernelTable::qk_norm_forward,
              {.eps = 1e-6, .x = x, .n_head = 5, .head_dim = dim, .rstd = rstd});
      });
    }
  }
  list.add("gain", [](OpFrame& f) {
    f.run(&KernelTable::qk_norm_forward,
          {.eps = 1e-6,
           .x = f.act_inout({9, 40}, normal_values(), {4 * kEpsilon, 12 * kEpsilon}, 7),
           .n_head = 5,
           .head_dim = 8,
           .rstd = f.output({9, 5}, relative(10)),
           .gain = f.input({8}, normal_values()),
           .normed = f.act_output({9, 40}, {4 * kEpsilon, 12 * kEpsilon}, 3)});
  });
  list.add("NaN and infinity", [](OpFrame& f) {
    f.run(&KernelTable::qk_norm_forward,
          {.eps = 1e-6,
           .x = f.act_inout({9, 40}, with_specials(normal_values()), relative(12)),
           .n_head = 5,
           .head_dim = 8});
  });
}

GPT_OP_CASES(qk_norm_backward) {
  for (int64_t dim : {2, 6, 8, 15, 16, 20, 64, 128}) {
    for (int64_t rows : {0, 1, 60}) {
      list.add(fmt::format("{} rows, dim {}", rows, dim), [=](OpFrame& f) {
        const TensorView dx = f.act_inout({rows, 3 * dim}, normal_values(), {32 * kEpsilon, 8 * kEpsilon}, 1);
        const TensorView y = f.act_input({rows, 3 * dim}, normal_values(), 2);
        const TensorView rstd = f.input({rows, 3}, uniform_values(0.5, 2));
        f.run(&KernelTable::qk_norm_backward, {.dx = dx, .y = y, .rstd = rstd, .n_head = 3, .head_dim = dim});
      });
    }
  }
  for (bool accumulate : {false, true}) {
    list.add(fmt::format("gain, accumulate {}", accumulate), [=](OpFrame& f) {
      const Tolerance sum = {64 * kEpsilon, 64 * kEpsilon};
      f.run(&KernelTable::qk_norm_backward,
            {.dx = f.act_inout({9, 24}, normal_values(), {32 * kEpsilon, 8 * kEpsilon}, 1),
             .y = f.act_input({9, 24}, normal_values(), 2),
             .rstd = f.input({9, 3}, uniform_values(0.5, 2)),
             .n_head = 3,
             .head_dim = 8,
             .gain = f.input({8}, normal_values()),
             .dgain = f.inout({8}, normal_values(), sum),
             .accumulate = accumulate});
    });
  }
}

}  // namespace
}  // namespace gpt::testing
