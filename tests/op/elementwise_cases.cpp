#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "op/op_case.h"
#include "support/random.h"

namespace gpt::testing {
namespace {

constexpr int64_t kLengths[] = {1, 2, 7, 8, 15, 16, 17, 33, 64, 100, 1000};

GPT_OP_CASES(add) {
  for (int64_t cols : kLengths) {
    for (int64_t rows : {0, 1, 5, 40}) {
      list.add(fmt::format("{}x{}", rows, cols), [=](OpFrame& f) {
        const TensorView a = f.act_input({rows, cols}, with_specials(normal_values()), 3);
        const TensorView b = f.act_input({rows, cols}, normal_values());
        f.run(&KernelTable::add, {.out = f.act_output({rows, cols}, relative(1), 5), .a = a, .b = b});
      });
    }
  }
  list.add("in place", [](OpFrame& f) {
    const TensorView a = f.act_inout({30, 700}, normal_values(), relative(1));
    f.run(&KernelTable::add, {.out = a, .a = a, .b = a});
  });
  list.add("fp32 + activation, in place", [](OpFrame& f) {
    const TensorView a = f.inout({30, 703}, normal_values(), relative(1));
    f.run(&KernelTable::add, {.out = a, .a = a, .b = f.act_input({30, 703}, normal_values(), 1)});
  });
  list.add("activation + fp32", [](OpFrame& f) {
    const TensorView a = f.act_input({30, 703}, normal_values());
    const TensorView b = f.input({30, 703}, normal_values(), 2);
    f.run(&KernelTable::add, {.out = f.act_output({30, 703}, relative(1)), .a = a, .b = b});
  });
}

// Computes one scaled term, or the sum of two.
GPT_OP_CASES(scaled_sum) {
  for (int64_t cols : {1, 17, 100}) {
    for (bool two : {false, true}) {
      list.add(fmt::format("{} columns, {} terms", cols, two ? 2 : 1), [=](OpFrame& f) {
        const TensorView a = f.act_input({9, cols}, normal_values(), 2);
        const TensorView b = two ? f.act_input({9, cols}, normal_values()) : TensorView{};
        f.run(&KernelTable::scaled_sum, {.out = f.act_output({9, cols}, {4 * kEpsilon, 4 * kEpsilon}, 1),
                                         .a = a,
                                         .a_scale = f.input({1}, normal_values()),
                                         .b = b,
                                         .b_scale = two ? f.input({1}, normal_values()) : TensorView{}});
      });
    }
  }
  list.add("in place", [](OpFrame& f) {
    const TensorView a = f.act_inout({30, 70}, normal_values(), relative(1));
    f.run(&KernelTable::scaled_sum, {.out = a, .a = a, .a_scale = f.input({1}, normal_values())});
  });
  list.add("subtracted", [](OpFrame& f) {
    const TensorView a = f.act_inout({30, 70}, normal_values(), {4 * kEpsilon, 4 * kEpsilon});
    f.run(&KernelTable::scaled_sum, {.out = a,
                                     .a = a,
                                     .b = f.act_input({30, 70}, normal_values()),
                                     .b_scale = f.input({1}, normal_values()),
                                     .b_factor = -1});
  });
}

GPT_OP_CASES(scaled_sum_backward) {
  for (int64_t rows : {0, 1, 3, 5, 63, 200}) {
    for (bool accumulate : {false, true}) {
      list.add(fmt::format("{} rows, accumulate {}", rows, accumulate), [=](OpFrame& f) {
        const TensorView dout = f.input({rows, 33}, normal_values());
        const Tolerance sum = {static_cast<double>(rows + 1) * 8 * kEpsilon, 4 * kEpsilon};
        f.run(&KernelTable::scaled_sum_backward,
              {.dout = dout,
               .x = f.act_input({rows, 33}, normal_values(), 1),
               .scale = f.input({1}, normal_values()),
               .dx = f.inout({rows, 33}, normal_values(), {4 * kEpsilon, 4 * kEpsilon}),
               .dscale = f.inout({1}, normal_values(), sum),
               .factor = rows == 63 ? -1.0 : 1.0,
               .accumulate = accumulate,
               .accumulate_scale = accumulate});
      });
    }
  }
}

GPT_OP_CASES(scale) {
  for (int64_t cols : kLengths) {
    for (int64_t rows : {0, 1, 40}) {
      list.add(fmt::format("{}x{}", rows, cols), [=](OpFrame& f) {
        const TensorView x = f.act_inout({rows, cols}, with_specials(normal_values()), relative(1), 3);
        f.run(&KernelTable::scale, {.x = x, .factor = 0.7});
      });
    }
  }
}

GPT_OP_CASES(clamp) {
  for (int64_t cols : {0, 1, 19, 50000}) {
    list.add(fmt::format("{}", cols), [=](OpFrame& f) {
      f.run(&KernelTable::clamp,
            {.x = f.inout({cols}, with_specials(normal_values()), relative(1)), .limit = 0.3});
    });
  }
  list.add("slice of a wider matrix", [](OpFrame& f) {
    f.run(&KernelTable::clamp, {.x = f.inout({90, 301}, normal_values(), relative(1), 4), .limit = 1.5});
  });
}

// Pairs in the preferred and the opposite order, scores far outside the range of exp, label smoothing, and
// ignored rows.
GPT_OP_CASES(preference) {
  for (const double scale : {0.3, 900.0}) {
    for (const double smoothing : {0.0, 0.1}) {
      list.add(fmt::format("scale {}, smoothing {}", scale, smoothing), [=](OpFrame& f) {
        constexpr int64_t kTokens = 3, kSamples = 6, kRows = kTokens * kSamples;
        std::vector<double> losses(kRows);
        std::vector<float> reference(kSamples), mask(kRows, 1), weights(kRows);
        for (size_t i = 0; i < losses.size(); ++i)
          losses[i] = scale * (1 + std::sin(static_cast<double>(i)));
        for (size_t i = 0; i < reference.size(); ++i)
          reference[i] = static_cast<float>(-scale * (2 + std::cos(static_cast<double>(i))));
        losses[4] = mask[4] = 0;
        f.run(&KernelTable::preference, {.losses = array_of(losses),
                                         .reference = array_of(reference),
                                         .mask = array_of(mask),
                                         .weights = array_of(weights),
                                         .n_ctx = kTokens,
                                         .beta = 0.5,
                                         .smoothing = smoothing});
        double* out = f.output_doubles(2 * kRows, {}).data;
        std::copy(losses.begin(), losses.end(), out);
        std::copy(weights.begin(), weights.end(), out + kRows);
      });
    }
  }
}

GPT_OP_CASES(sum_losses) {
  for (int64_t rows : {0, 1, 50}) {
    list.add(fmt::format("{}", rows), [=](OpFrame& f) {
      std::vector<double> losses(static_cast<size_t>(rows));
      std::iota(losses.begin(), losses.end(), 0.1);
      double sum = 3;
      f.run(&KernelTable::sum_losses, {.losses = array_of(losses), .sum = array_of(sum)});
      f.output_doubles(1, {})[0] = sum;
    });
  }
}

// A plain update, clipping, values above the limits, and a second call with `clamped`. The sums are the same
// doubles in every run.
GPT_OP_CASES(finalize_grad_norm) {
  constexpr double kBad = HUGE_VAL;
  for (const StepState& start :
       {StepState{}, StepState{.loss_scale = 4, .loss_weight = 0.5, .clip_norm = 1, .loss = 3, .updates = 7},
        StepState{.max_loss = 2, .loss = 3}, StepState{.loss_weight = 1, .max_loss = 2, .loss = 3},
        StepState{.max_norm = 1}, StepState{.loss_weight = 1, .loss = kBad}}) {
    for (int64_t blocks : {0, 1, 9}) {
      for (const bool bad : {false, true}) {
        list.add(fmt::format("{} blocks{}, clip {}, limits {} {}, loss {} scaled {}", blocks,
                             bad ? ", infinite" : "", start.clip_norm, start.max_loss, start.max_norm,
                             start.loss, start.loss_weight),
                 [=](OpFrame& f) {
                   std::vector<double> sums(static_cast<size_t>(blocks), bad ? kBad : 2);
                   StepState step = start;
                   double* out = f.output_doubles(5, {}).data;
                   f.run(&KernelTable::finalize_grad_norm,
                         {.block_sums = array_of(sums), .step = array_of(step)});
                   std::copy_n(
                       std::data({step.loss, step.norm, step.grad_scale, static_cast<double>(step.updates)}),
                       4, out);
                   f.run(&KernelTable::finalize_grad_norm,
                         {.block_sums = array_of(sums), .step = array_of(step), .clamped = true});
                   out[4] = step.grad_scale;
                 });
      }
    }
  }
}

// Checks the limits for windows that are partially filled, filled, and filled with one constant.
GPT_OP_CASES(begin_step) {
  for (const int64_t count :
       {int64_t{0}, ScalarWindow::kSize - 1, ScalarWindow::kSize, 3 * ScalarWindow::kSize + 7}) {
    for (const bool constant : {false, true}) {
      list.add(fmt::format("{} values{}", count, constant ? ", all equal" : ""), [=](OpFrame& f) {
        StepState step{.lr = 7,
                       .loss = 3,
                       .norm = 4,
                       .grad_scale = 5,
                       .updates = 9,
                       .scaling = {.scale = 8},
                       .outlier_z = 2};
        std::vector<double> last;
        for (int64_t i = 0; i < count; ++i) {
          const double x = constant ? 2 : 1 + static_cast<double>(i * i % 11);
          for (ScalarWindow* w : {&step.losses, &step.norms})
            w->values[w->count++ % ScalarWindow::kSize] = x;
          last.push_back(x);
        }
        f.run(&KernelTable::begin_step,
              {.inputs = {.step = 6, .seed = 5, .lr = 0.5, .loss_weight = 0.25, .clip_norm = 1},
               .step = array_of(step)});
        EXPECT_EQ(step.step, 6);
        EXPECT_EQ(step.seed, 5u);
        EXPECT_EQ(step.lr, 0.5);
        EXPECT_EQ(step.loss_scale, 8);
        EXPECT_EQ(step.updates, 9);
        EXPECT_EQ(step.loss, 0);
        EXPECT_EQ(step.grad_scale, 0);
        double limit = HUGE_VAL;
        if (count >= ScalarWindow::kSize && !constant) {
          last.erase(last.begin(), last.end() - ScalarWindow::kSize);
          const double mean =
              std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
          double squares = 0;
          for (const double x : last)
            squares += (x - mean) * (x - mean);
          limit = mean + 2 * std::sqrt(squares / static_cast<double>(last.size()));
        }
        EXPECT_EQ(step.max_loss, limit);
        EXPECT_EQ(step.max_norm, limit);
      });
    }
  }
}

// Checks the state that finalize_grad_norm leaves for the next step: the loss scale, the windows, and whether
// the run is halted.
TEST(FinalizeGradNorm, ChangesTheStateOfTheRun) {
  const auto end_of = [](StepState step, double squares) {
    std::vector<double> sums = {squares};
    OpFrame f({.kernels = kernel_table(Isa::ref)}, "end of a step");
    f.run(&KernelTable::finalize_grad_norm, {.block_sums = array_of(sums), .step = array_of(step)});
    return step;
  };
  const StepState fp16{
      .loss_scale = 4, .loss_weight = 1, .loss = 2, .scaling = {.dynamic = true, .scale = 4}, .outlier_z = 3};
  const StepState good = end_of(fp16, 16);
  EXPECT_EQ(good.updates, 1);
  EXPECT_EQ(good.scaling.good_steps, 1);
  EXPECT_EQ(good.losses.count, 1);
  EXPECT_EQ(good.losses.values[0], 2);
  EXPECT_EQ(good.norms.values[0], 1);
  const StepState overflow = end_of(fp16, HUGE_VAL);
  EXPECT_EQ(overflow.scaling.scale, 2);
  EXPECT_EQ(overflow.scaling.overflows, 1);
  EXPECT_EQ(overflow.updates, 0);
  EXPECT_EQ(overflow.losses.count, 0);
  EXPECT_FALSE(overflow.halted);
  StepState last = fp16;
  last.scaling.scale = 1;
  EXPECT_TRUE(end_of(last, HUGE_VAL).halted) << "a scale of less than 1 would not help";
  StepState grows = fp16;
  grows.scaling.good_steps = LossScale::kGrowEvery - 1;
  EXPECT_EQ(end_of(grows, 16).scaling.scale, 8);
  const StepState fp32{.loss_weight = 1, .loss = 2};
  const StepState halted = end_of(fp32, std::nan(""));
  EXPECT_TRUE(halted.halted);
  EXPECT_EQ(halted.scaling.overflows, 0);
  StepState after = halted;
  after.loss = 2;
  EXPECT_EQ(end_of(after, 16).grad_scale, 0) << "nothing is updated any more";
}

// Squares are exact in double and never negative, so the only rounding errors are those of the double sum.
GPT_OP_CASES(sum_squares) {
  for (int64_t n : {int64_t{0}, int64_t{1}, int64_t{31}, kSumBlock - 1, kSumBlock, 3 * kSumBlock + 5}) {
    list.add(fmt::format("{}", n), [=](OpFrame& f) {
      const TensorView x = f.input({n}, normal_values());
      const CaseArray<double> sums =
          f.output_doubles((n + kSumBlock - 1) / kSumBlock, {.relative = kSumBlock * 0x1p-53});
      f.run(&KernelTable::sum_squares, {.x = x, .block_sums = sums});
    });
  }
  list.add("NaN and infinity", [](OpFrame& f) {
    const TensorView x = f.input({200}, with_specials(normal_values()));
    f.run(&KernelTable::sum_squares, {.x = x, .block_sums = f.output_doubles(1, {})});
  });
}

// Ranges with arbitrary start positions, empty ranges, and ranges of more than one run. The reference sums
// each run in the dtype of the call.
GPT_OP_CASES(range_squares) {
  static const std::vector<ElementRange> kRanges = {{0, 0},      {0, 1},       {3, 40},
                                                    {100, 1124}, {1124, 4000}, {7, 9000}};
  for (size_t n : {size_t{0}, size_t{1}, kRanges.size()}) {
    list.add(fmt::format("{} ranges", n), [=](OpFrame& f) {
      f.run(&KernelTable::range_squares,
            {.x = f.input({9000}, normal_values()),
             .ranges = std::span(kRanges).first(n),
             .sums = f.output_doubles(static_cast<int64_t>(n), {.relative = 1100 * kEpsilon})});
    });
  }
}

GPT_OP_CASES(convert) {
  for (int64_t cols : {1, 33, 4100}) {
    for (int64_t rows : {0, 1, 7}) {
      list.add(fmt::format("{}x{}", rows, cols), [=](OpFrame& f) {
        const TensorView wide = f.input({rows, cols}, with_specials(normal_values()), 2);
        const TensorView narrow = f.act_output({rows, cols}, {}, 3);
        f.run(&KernelTable::convert, {.dst = narrow, .src = wide});
        f.run(&KernelTable::convert, {.dst = f.output({rows, cols}, {.relative = 0x1p-7}), .src = narrow});
      });
    }
  }
}

GPT_OP_CASES(swap) {
  for (int64_t cols : {1, 33, 5000}) {
    list.add(fmt::format("{}", cols), [=](OpFrame& f) {
      f.run(&KernelTable::swap, {.a = f.act_inout({3, cols}, with_specials(normal_values()), {}, 2),
                                 .b = f.act_inout({3, cols}, normal_values(), {}, 5)});
    });
  }
}

// Finds the first of several non-finite values in memory order, or none. Covers column slices and transposed
// matrices.
GPT_OP_CASES(find_nonfinite) {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    for (const int64_t first : {int64_t{-1}, int64_t{0}, int64_t{401}, int64_t{999}}) {
      for (const bool transposed : {false, true}) {
        list.add(fmt::format("{} at {}{}", bad, first, transposed ? " transposed" : ""), [=](OpFrame& f) {
          TensorView x = f.act_input(
              {20, 50},
              [=](int64_t i, RandomStream& random) {
                return first >= 0 && i >= first && (i - first) % 7 == 0 ? bad : test::bell(random);
              },
              3);
          x.transposed = transposed;
          if (transposed) std::swap(x.shape[0], x.shape[1]);
          const CaseArray<int64_t> index = f.longs({-7});
          f.run(&KernelTable::find_nonfinite, {.x = x, .index = index});
          f.output_doubles(1, {})[0] = static_cast<double>(index[0]);
          EXPECT_EQ(index[0], first);
        });
      }
    }
  }
  list.add("nothing", [](OpFrame& f) {
    const CaseArray<int64_t> index = f.longs({-7});
    f.run(&KernelTable::find_nonfinite, {.x = f.act_input({0, 5}, normal_values()), .index = index});
    EXPECT_EQ(index[0], -1);
  });
}

AdamWRange adamw_range(int64_t begin, int64_t end, double decay, double lr_scale = 1, double beta2 = 0.95) {
  return {begin, end, {.beta2 = beta2, .weight_decay = decay, .lr_scale = lr_scale}};
}

// The op computes in fp32 for every dtype, so results are bit-identical.
GPT_OP_CASES(update_squares) {
  static const std::vector<AdamWRange> kRanges = {adamw_range(0, 0, 0.1), adamw_range(0, 5, 0),
                                                  adamw_range(5, 3000, 0.1, 0.5, 0.8),
                                                  adamw_range(2000, 3000, 0.3, 2)};
  for (const int64_t updates : {1, 500}) {
    list.add(fmt::format("after {}", updates), [=](OpFrame& f) {
      std::vector<float> param, m, v;
      for (int i = 0; i < 3000; ++i) {
        param.push_back(std::sin(static_cast<float>(i)));
        m.push_back(0.1f * std::cos(static_cast<float>(3 * i)));
        v.push_back(0.01f + 0.001f * static_cast<float>(i % 17));
      }
      const StepState step{.lr = 0.3, .updates = updates};
      const int64_t n = std::ssize(kRanges);
      f.run(&KernelTable::update_squares, {.param = make_view(param.data(), {3000}),
                                           .m = make_view(m.data(), {3000}),
                                           .v = make_view(v.data(), {3000}),
                                           .ranges = kRanges,
                                           .step = array_of(step),
                                           .sums = f.output_doubles(2 * n, {})});
    });
  }
}

DropoutKey dropout_of(double p, int64_t first_row) {
  static constexpr StepState kStep{.step = 9, .seed = 0x123456789ABCDEF0u};
  return {.p = p,
          .site = RandomSite::dropout_mlp_out,
          .layer = 2,
          .first_row = first_row,
          .step = array_of(kStep)};
}

// There are two roundings, of the scale and of the product. The dropout mask must match the reference
// exactly.
GPT_OP_CASES(dropout) {
  for (int64_t cols : {1, 3, 16, 31, 66, 130, 1000}) {
    for (double p : {0.0, 0.1, 0.5, 0.999}) {
      list.add(fmt::format("cols {} p {}", cols, p), [=](OpFrame& f) {
        const TensorView x = f.act_input({37, cols}, with_specials(normal_values()), 2);
        f.run(&KernelTable::dropout,
              {.out = f.act_output({37, cols}, relative(2)), .x = x, .dropout = dropout_of(p, 5)});
      });
    }
  }
  // The fp32 gradient of the residual stream becomes the gradient of a branch.
  list.add("from fp32", [](OpFrame& f) {
    const TensorView x = f.input({30, 77}, with_specials(normal_values()), 1);
    f.run(&KernelTable::dropout,
          {.out = f.act_output({30, 77}, relative(2)), .x = x, .dropout = dropout_of(0.2, 0)});
  });
  // Element indices just below and above 2^34, where the lower word of the counter wraps around within one
  // vector.
  for (int64_t cols : {1, 150}) {
    list.add(fmt::format("counter wraps, cols {}", cols), [=](OpFrame& f) {
      const TensorView x = f.act_inout({100, cols}, normal_values(), relative(2));
      const int64_t first_row = (int64_t{1} << 34) / cols - 30;
      f.run(&KernelTable::dropout, {.out = x, .x = x, .dropout = dropout_of(0.5, first_row)});
    });
  }
}

std::vector<int64_t> backwards(int64_t rows) {
  std::vector<int64_t> where(static_cast<size_t>(rows));
  std::iota(where.rbegin(), where.rend(), 3);
  return where;
}

// Rows of three groups. Row 0 has a group of zeros, row 7 a group of NaN, and row 9 a group with infinity.
Fill three_groups(int64_t width) {
  return [=](int64_t i, RandomStream& random) {
    const double x = 3 * random.normal();
    const int64_t row = i / (3 * width), column = i % (3 * width);
    if (row == 0 && column < width) return 0.0;
    if (row == 7 && column < width) return std::nan("");
    return row == 9 && column == width ? HUGE_VAL : x;
  };
}

GPT_OP_CASES(scatter_rows) {
  for (int64_t rows : {0, 1, 50}) {
    for (int64_t cols : {1, 33, 700}) {
      list.add(fmt::format("{}x{}", rows, cols), [=](OpFrame& f) {
        const TensorView src = f.act_input({rows, cols}, with_specials(normal_values()), 6);
        const TensorView dst = f.act_inout({rows + 5, cols}, normal_values(), {}, 1);
        f.run(&KernelTable::scatter_rows, {.dst = dst, .src = src, .rows = f.longs(backwards(rows))});
      });
    }
  }
  list.add("activation to fp32", [](OpFrame& f) {
    const TensorView src = f.act_input({40, 500}, with_specials(normal_values()), 6);
    const TensorView dst = f.inout({60, 500}, normal_values(), {});
    f.run(&KernelTable::scatter_rows, {.dst = dst, .src = src, .rows = f.longs(backwards(40))});
  });
  list.add("fp32 to activation", [](OpFrame& f) {
    const TensorView src = f.input({40, 500}, with_specials(normal_values()));
    const TensorView dst = f.act_inout({60, 500}, normal_values(), {}, 3);
    f.run(&KernelTable::scatter_rows, {.dst = dst, .src = src, .rows = f.longs(backwards(40))});
  });
  // int8 and q4_0: the reference rounds in float even in a run in double, so values match exactly. Row r is
  // stored in row r.
  for (int64_t rows : {0, 1, 70}) {
    std::vector<int64_t> where(static_cast<size_t>(rows));
    std::iota(where.begin(), where.end(), 0);
    for (int64_t width : {1, 15, 16, 64, 100}) {
      list.add(fmt::format("int8 {} rows, groups of {}", rows, width), [=](OpFrame& f) {
        f.run(&KernelTable::scatter_rows, {.dst = f.output_of(DType::i8, {rows, 3 * width}, {}, 5),
                                           .src = f.act_input({rows, 3 * width}, three_groups(width), 2),
                                           .rows = f.longs(where),
                                           .scale = f.output({rows, 3}, {}, 1)});
      });
    }
    list.add(fmt::format("q4_0 {} rows", rows), [=](OpFrame& f) {
      constexpr int64_t kBlock = block_size(DType::q4_0).elements, kBytes = block_size(DType::q4_0).bytes;
      const TensorView bytes = f.output_of(DType::i8, {rows, 3 * kBytes}, {}, 2 * kBytes);
      TensorView dst = make_view(bytes.data, DType::q4_0, {rows, 3 * kBlock});
      dst.ld = 5 * kBlock;
      f.run(&KernelTable::scatter_rows, {.dst = dst,
                                         .src = f.act_input({rows, 3 * kBlock}, three_groups(kBlock), 2),
                                         .rows = f.longs(where)});
    });
  }
}

// Rows after the kept ones remain unchanged.
GPT_OP_CASES(compact_rows) {
  using Rows = std::vector<int64_t>;
  for (const Rows& kept :
       {Rows{}, Rows{0}, Rows{6}, Rows{0, 1, 5}, Rows{2, 3, 4, 8}, Rows{0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
    for (int64_t cols : {1, 33, 700}) {
      list.add(fmt::format("{} of 9, {} wide", fmt::join(kept, " "), cols), [=](OpFrame& f) {
        f.run(&KernelTable::compact_rows,
              {.x = f.act_inout({9, cols}, with_specials(normal_values()), {}, 2), .rows = f.longs(kept)});
      });
    }
  }
}

// The tolerance of m and v covers the difference, the product and the sum, relative to terms of size 1. The
// update divides by sqrt(v), which takes about ten roundings. The absolute error of the update is
// proportional to lr, as long as |m| / sqrt(v) is of order one.
struct Update {
  int64_t n, t;
  double scale = 1, lr = 0.01;
  std::vector<AdamWRange> ranges;
  bool from_zero = false;  // applies to m and v
};
void adamw_case(OpCaseList& list, const char* name, const Update& u) {
  list.add(fmt::format("{} n {}", name, u.n), [u](OpFrame& f) {
    const Tolerance moment = {4 * kEpsilon, 4 * kEpsilon};
    const TensorView param = f.inout({u.n}, normal_values(), {16 * u.lr * kEpsilon, 3 * kEpsilon});
    const TensorView grad = f.input({u.n}, normal_values(u.from_zero ? 1e-3 : 1));
    const TensorView m = u.from_zero ? f.inout({u.n}, constant_values(0), relative(4))
                                     : f.inout({u.n}, normal_values(0.1), moment);
    const TensorView v = u.from_zero ? f.inout({u.n}, constant_values(0), relative(6))
                                     : f.inout({u.n}, uniform_values(0.1, 1), moment);
    const StepState step{.lr = u.lr, .grad_scale = u.scale, .updates = u.t};
    f.run(&KernelTable::adamw,
          {.param = param, .grad = grad, .m = m, .v = v, .ranges = u.ranges, .step = array_of(step)});
  });
}

GPT_OP_CASES(adamw) {
  for (int64_t n : kLengths)
    adamw_case(list, "plain", {.n = n, .t = 3, .ranges = {adamw_range(0, n, 0.1)}});
  adamw_case(list, "clipped", {.n = 50001, .t = 1000, .scale = 0.25, .ranges = {adamw_range(0, 50001, 0.1)}});
  adamw_case(list, "no decay", {.n = 40000, .t = 10, .ranges = {adamw_range(0, 40000, 0)}});
  adamw_case(list, "skipped step", {.n = 100, .t = 10, .scale = 0, .ranges = {adamw_range(0, 100, 0.1)}});
  adamw_case(list, "empty", {.n = 0, .t = 1, .ranges = {adamw_range(0, 0, 0.1)}});
  // Ranges within a chunk, ranges across chunks, and gaps between ranges whose elements must not change.
  adamw_case(list, "ranges",
             {.n = 60000,
              .t = 4,
              .scale = 0.5,
              .ranges = {adamw_range(0, 16, 0), adamw_range(16, 768, 0.1), adamw_range(800, 16384, 0, 1, 0.8),
                         adamw_range(16384, 16400, 0.3, 0.5), adamw_range(16403, 50001, 0.1),
                         adamw_range(50001, 50002, 0)}});
  adamw_case(list, "first step",
             {.n = 99, .t = 1, .lr = 1e-3, .ranges = {adamw_range(0, 99, 0.1, 1, 0.999)}, .from_zero = true});
}

}  // namespace
}  // namespace gpt::testing
