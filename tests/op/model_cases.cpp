#include <fmt/format.h>

#include <cmath>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

constexpr Act kActs[] = {Act::gelu_tanh, Act::gelu, Act::relu, Act::relu2, Act::swiglu};

GPT_OP_CASES(embedding_forward) {
  for (int64_t cols : {1, 16, 35, 768}) {
    for (int64_t rows : {0, 1, 45}) {
      for (bool positions : {false, true}) {
        list.add(fmt::format("{}x{} {}", rows, cols, positions), [=](OpFrame& f) {
          const TensorView wte = f.input({11, cols}, with_specials(normal_values()));
          const TensorView wpe = positions ? f.input({9, cols}, normal_values()) : TensorView{};
          f.run(&KernelTable::embedding_forward, {.out = f.output({rows, cols}, relative(1), 3),
                                                  .ids = f.ints(rows, 0, 10),
                                                  .positions = f.ints(rows, 0, 8),
                                                  .wte = wte,
                                                  .wpe = wpe});
        });
      }
    }
  }
}

// Rows are added one after another to an entry: as many roundings as rows.
GPT_OP_CASES(embedding_backward) {
  for (int64_t cols : {1, 16, 63, 64, 65, 300}) {
    for (int64_t rows : {0, 1, 90}) {
      for (int which : {1, 2, 3}) {
        list.add(fmt::format("{}x{} {}", rows, cols, which), [=](OpFrame& f) {
          const TensorView dout = f.input({rows, cols}, normal_values(), 2);
          const TensorView none;
          f.run(&KernelTable::embedding_backward,
                {.dout = dout,
                 .ids = f.ints(rows, 0, 6),
                 .positions = f.ints(rows, 0, 4),
                 .dwte = which & 1 ? f.inout({7, cols}, normal_values(), sum_of(rows)) : none,
                 .dwpe = which & 2 ? f.inout({5, cols}, normal_values(), sum_of(rows)) : none});
        });
      }
    }
  }
}

// vec_math.h: e^x, the logistic function and Phi have relative errors of some 5 epsilon (8 in Phi's tail,
// hence the absolute part); the argument of e^x adds |argument| epsilon, at most 20 where the result counts.
constexpr Tolerance kActTolerance = {16 * kEpsilon, 16 * kEpsilon};

GPT_OP_CASES(act_forward) {
  for (Act act : kActs) {
    const bool gated = act == Act::swiglu;
    for (int64_t cols : {1, 16, 17, 100, 1000}) {
      for (bool special : {false, true}) {
        list.add(fmt::format("act {} cols {} special {}", static_cast<int>(act), cols, special),
                 [=](OpFrame& f) {
                   const Fill fill = special ? with_specials(normal_values(3)) : normal_values(3);
                   const TensorView x = f.input({25, cols}, fill, 2);
                   const TensorView gate = gated ? f.input({25, cols}, fill, 1) : TensorView{};
                   f.run(&KernelTable::act_forward,
                         {.act = act, .out = f.output({25, cols}, kActTolerance, 3), .x = x, .gate = gate});
                 });
      }
    }
    list.add(fmt::format("act {} wide range", static_cast<int>(act)), [=](OpFrame& f) {
      const Fill ramp = [](int64_t i, RandomStream&) { return (static_cast<double>(i) - 5000) / 50; };
      const TensorView x = f.input({1, 10001}, ramp);
      const TensorView gate = gated ? x : TensorView{};
      f.run(&KernelTable::act_forward,
            {.act = act, .out = f.output({1, 10001}, kActTolerance), .x = x, .gate = gate});
    });
    list.add(fmt::format("act {} empty", static_cast<int>(act)), [=](OpFrame& f) {
      const TensorView x = f.input({0, 16}, normal_values());
      f.run(&KernelTable::act_forward,
            {.act = act, .out = f.output({0, 16}, {}), .x = x, .gate = gated ? x : TensorView{}});
    });
  }
}

GPT_OP_CASES(act_backward) {
  for (Act act : kActs) {
    const bool gated = act == Act::swiglu;
    for (int64_t cols : {1, 16, 17, 100, 1000}) {
      for (bool special : {false, true}) {
        list.add(fmt::format("act {} cols {} special {}", static_cast<int>(act), cols, special),
                 [=](OpFrame& f) {
                   const Fill fill = special ? with_specials(normal_values(2)) : normal_values(2);
                   const TensorView x = f.input({25, cols}, fill, 2);
                   const TensorView gate = gated ? f.input({25, cols}, fill, 1) : TensorView{};
                   const TensorView dx = f.inout({25, cols}, normal_values(), kActTolerance);
                   // Products of three numbers of up to 10.
                   const Tolerance dgate_tolerance = {64 * kEpsilon, 16 * kEpsilon};
                   f.run(&KernelTable::act_backward,
                         {.act = act,
                          .dx = dx,
                          .dgate = gated ? f.output({25, cols}, dgate_tolerance, 4) : TensorView{},
                          .dout = special ? dx : f.input({25, cols}, normal_values(), 5),
                          .x = x,
                          .gate = gate});
                 });
      }
    }
    list.add(fmt::format("act {} wide range", static_cast<int>(act)), [=](OpFrame& f) {
      const Fill ramp = [](int64_t i, RandomStream&) { return (static_cast<double>(i) - 5000) / 500; };
      const TensorView x = f.input({1, 10001}, ramp);
      const TensorView dout = f.input({1, 10001}, constant_values(1));
      f.run(&KernelTable::act_backward,
            {.act = act,
             .dx = f.output({1, 10001}, {32 * kEpsilon, 16 * kEpsilon}),
             .dgate = gated ? f.output({1, 10001}, {64 * kEpsilon, 16 * kEpsilon}) : TensorView{},
             .dout = dout,
             .x = x,
             .gate = gated ? x : TensorView{}});
    });
  }
}

// Two products of numbers of order one (values reach 5) and their sum.
GPT_OP_CASES(rope) {
  for (int64_t dim : {2, 4, 6, 16, 30, 34, 64, 128}) {
    for (bool interleaved : {false, true}) {
      for (int sign : {1, -1}) {
        for (int64_t rows : {0, 1, 70}) {
          list.add(fmt::format("dim {} interleaved {} sign {} rows {}", dim, interleaved, sign, rows),
                   [=](OpFrame& f) {
                     const int64_t half = dim / 2;
                     const auto angle = [half](int64_t i) {
                       return static_cast<double>(i / half) * std::pow(0.3, static_cast<double>(i % half));
                     };
                     const auto cos = [=](int64_t i, RandomStream&) { return std::cos(angle(i)); };
                     const auto sin = [=](int64_t i, RandomStream&) { return std::sin(angle(i)); };
                     const TensorView x =
                         f.inout({rows, 3 * dim}, normal_values(), {16 * kEpsilon, 4 * kEpsilon}, dim + 1);
                     f.run(&KernelTable::rope, {.x = x,
                                                .n_head = 3,
                                                .head_dim = dim,
                                                .positions = f.ints(rows, 0, 19),
                                                .cos = f.input({20, half}, cos),
                                                .sin = f.input({20, half}, sin),
                                                .sign = sign,
                                                .interleaved = interleaved});
                   });
        }
      }
    }
  }
}

// tanh: 3 ulp on an argument off by 1.5; its slope is at most one.
GPT_OP_CASES(softcap) {
  for (int64_t cols : {1, 16, 21, 5000}) {
    for (double cap : {0.5, 15.0}) {
      list.add(fmt::format("cols {} cap {}", cols, cap), [=](OpFrame& f) {
        const Fill fill = cols == 21 ? with_specials(normal_values(10)) : normal_values(10);
        f.run(&KernelTable::softcap, {.x = f.inout({7, cols}, fill, relative(12), 3), .cap = cap});
      });
    }
  }
  list.add("empty", [](OpFrame& f) {
    f.run(&KernelTable::softcap, {.x = f.inout({0, 9}, normal_values(), {}), .cap = 1});
  });
}

// How a cross-entropy case varies.
struct LossShape {
  int64_t rows, vocab;
  double spread = 3;  // of the logits
  double softcap = 0;
  bool gradient = true, in_place = false;
};

// The loss is a difference of numbers of up to |z|, whose softcapped values are off by some ulp of the cap.
// A probability has a relative error of |z - top| epsilon from the argument of e^x plus that of z, and at
// |z - top| > 16 it is below epsilon itself.
void loss_case(OpCaseList& list, const LossShape& s) {
  list.add(fmt::format("{}x{} spread {} softcap {} gradient {}{}", s.rows, s.vocab, s.spread, s.softcap,
                       s.gradient, s.in_place ? " in place" : ""),
           [=](OpFrame& f) {
             const double scale = 0.125;
             const double z_error = (8 + 8 * s.softcap) * kEpsilon;
             const Tolerance gradient = {scale * (z_error + 16 * kEpsilon), z_error + 40 * kEpsilon};
             const Fill fill = normal_values(s.spread);
             CrossEntropyArgs a{};
             a.scale = scale;
             a.softcap = s.softcap;
             a.logits = s.in_place ? f.inout({s.rows, s.vocab}, fill, gradient, 3)
                                   : f.input({s.rows, s.vocab}, fill, 1);
             a.targets = f.ints(s.rows, -1, s.vocab - 1);
             a.losses = f.output_doubles(s.rows, {2 * z_error + 40 * kEpsilon, 4 * kEpsilon});
             if (s.gradient) a.dlogits = s.in_place ? a.logits : f.output({s.rows, s.vocab}, gradient, 2);
             f.run(&KernelTable::cross_entropy, a);
           });
}

GPT_OP_CASES(cross_entropy) {
  for (double softcap : {0.0, 15.0}) {
    for (int64_t vocab : {1, 2, 16, 17, 65, 2047, 2048, 2049, 9001}) {
      loss_case(list, {.rows = 9, .vocab = vocab, .softcap = softcap});
      loss_case(list, {.rows = 9, .vocab = vocab, .softcap = softcap, .gradient = false});
      loss_case(list, {.rows = 9, .vocab = vocab, .spread = 30, .softcap = softcap, .in_place = true});
    }
    loss_case(list, {.rows = 0, .vocab = 50, .softcap = softcap});
    loss_case(list, {.rows = 300, .vocab = 301, .softcap = softcap});
  }
  // Vectors, chunks and whole rows of -inf, NaN, +inf.
  for (int64_t bad_from : {0, 2048, 5000}) {
    for (double bad : {-HUGE_VAL, HUGE_VAL, std::nan("")}) {
      list.add(fmt::format("{} from {}", bad, bad_from), [=](OpFrame& f) {
        const Fill fill = [=](int64_t i, RandomStream& random) {
          const double x = random.normal();
          const int64_t row = i / 6000, v = i % 6000;
          return row == 2 || (v >= bad_from && v < bad_from + (row == 0 ? 1 : 2500)) ? bad : x;
        };
        const TensorView logits = f.input({3, 6000}, fill);
        int32_t* targets = f.ints(3, 0, 0);
        for (int i = 0; i < 3; ++i)
          targets[i] = 5500;
        f.run(&KernelTable::cross_entropy, {.logits = logits,
                                            .targets = targets,
                                            .losses = f.output_doubles(3, {40 * kEpsilon, 4 * kEpsilon}),
                                            .dlogits = f.output({3, 6000}, {16 * kEpsilon, 40 * kEpsilon})});
      });
    }
  }
}

}  // namespace
}  // namespace gpt::testing
