#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "op/op_case.h"
#include "support/random.h"

namespace gpt::testing {
namespace {

struct ActVariant {
  Activation act;
  bool gated;
};

std::vector<ActVariant> act_variants() {
  std::vector<ActVariant> list;
  for (Activation act :
       {Activation::gelu_tanh, Activation::gelu, Activation::relu, Activation::relu2, Activation::silu}) {
    list.push_back({act, false});
    list.push_back({act, true});
  }
  return list;
}

GPT_OP_CASES(embedding_forward) {
  for (int64_t cols : {1, 16, 35, 768}) {
    for (int64_t rows : {0, 1, 45}) {
      for (bool positions : {false, true}) {
        list.add(fmt::format("{}x{} {}", rows, cols, positions), [=](OpFrame& f) {
          const TensorView wte = f.input({11, cols}, with_specials(normal_values()));
          const TensorView wpe = positions ? f.input({9, cols}, normal_values()) : TensorView{};
          f.run(&KernelTable::embedding_forward, {.out = f.act_output({rows, cols}, relative(1), 3),
                                                  .ids = f.ints(rows, 0, 10),
                                                  .positions = f.ints(rows, 0, 8),
                                                  .wte = wte,
                                                  .wpe = wpe});
        });
      }
    }
  }
  // Embedding tables in the dtype of a model file.
  for (bool positions : {false, true}) {
    for (bool narrow_out : {false, true}) {
      list.add(fmt::format("narrow tables {} {}", positions, narrow_out), [=](OpFrame& f) {
        const TensorView wte = f.act_input({11, 70}, with_specials(normal_values()), 1);
        const TensorView wpe = positions ? f.act_input({9, 70}, normal_values()) : TensorView{};
        f.run(&KernelTable::embedding_forward,
              {.out = narrow_out ? f.act_output({45, 70}, relative(1)) : f.output({45, 70}, relative(1)),
               .ids = f.ints(45, 0, 10),
               .positions = f.ints(45, 0, 8),
               .wte = wte,
               .wpe = wpe});
      });
    }
  }
}

// Rows are added to a table entry one by one, so there are as many roundings as rows.
GPT_OP_CASES(embedding_backward) {
  for (int64_t cols : {1, 16, 63, 64, 65, 300}) {
    for (int64_t rows : {0, 1, 90}) {
      for (int which = 1; which < 16; ++which) {
        const bool wte = which & 1, wpe = which & 2, add_wte = !(which & 4), add_wpe = !(which & 8);
        if ((!wte && !add_wte) || (!wpe && !add_wpe)) continue;
        list.add(fmt::format("{}x{} {}", rows, cols, which), [=](OpFrame& f) {
          const TensorView dout = f.act_input({rows, cols}, normal_values(), 2);
          const auto table = [&](bool is_there, int64_t n, bool add) {
            if (!is_there) return TensorView{};
            return add ? f.inout({n, cols}, normal_values(), sum_of(rows))
                       : f.output({n, cols}, sum_of(rows));
          };
          f.run(&KernelTable::embedding_backward, {.dout = dout,
                                                   .ids = f.ints(rows, 0, 6),
                                                   .positions = f.ints(rows, 0, 4),
                                                   .dwte = table(wte, 7, add_wte),
                                                   .dwpe = table(wpe, 5, add_wpe),
                                                   .accumulate_wte = add_wte,
                                                   .accumulate_wpe = add_wpe});
        });
      }
    }
  }
}

// In vec_math.h, e^x, the logistic function and Phi have relative errors of about 5 epsilon. Phi's tail has 8
// epsilon, which requires the absolute tolerance. The argument x of e^x adds |x| epsilon, and |x| is at most
// 20 where the result matters.
constexpr Tolerance kActTolerance = {16 * kEpsilon, 16 * kEpsilon};

GPT_OP_CASES(act_forward) {
  for (const ActVariant& variant : act_variants()) {
    const Activation act = variant.act;
    const bool gated = variant.gated;
    for (int64_t cols : {1, 16, 17, 100, 1000}) {
      for (bool special : {false, true}) {
        list.add(fmt::format("act {}{} cols {} special {}", static_cast<int>(act), gated ? " gated" : "",
                             cols, special),
                 [=](OpFrame& f) {
                   const Fill fill = special ? with_specials(normal_values(3)) : normal_values(3);
                   const TensorView x = f.act_input({25, cols}, fill, 2);
                   const TensorView gate = gated ? f.act_input({25, cols}, fill, 1) : TensorView{};
                   f.run(
                       &KernelTable::act_forward,
                       {.act = act, .out = f.act_output({25, cols}, kActTolerance, 3), .x = x, .gate = gate});
                 });
      }
    }
    list.add(
        fmt::format("act {}{} wide range", static_cast<int>(act), gated ? " gated" : ""), [=](OpFrame& f) {
          const double steps = gated && act == Activation::relu2 ? 500 : 50;  // x^3 stays within fp16
          const Fill ramp = [=](int64_t i, RandomStream&) { return (static_cast<double>(i) - 5000) / steps; };
          const TensorView x = f.act_input({1, 10001}, ramp);
          const TensorView gate = gated ? x : TensorView{};
          f.run(&KernelTable::act_forward,
                {.act = act, .out = f.act_output({1, 10001}, kActTolerance), .x = x, .gate = gate});
        });
    list.add(fmt::format("act {}{} empty", static_cast<int>(act), gated ? " gated" : ""), [=](OpFrame& f) {
      const TensorView x = f.act_input({0, 16}, normal_values());
      f.run(&KernelTable::act_forward,
            {.act = act, .out = f.act_output({0, 16}, {}), .x = x, .gate = gated ? x : TensorView{}});
    });
  }
}

GPT_OP_CASES(act_backward) {
  for (const ActVariant& variant : act_variants()) {
    const Activation act = variant.act;
    const bool gated = variant.gated;
    for (int64_t cols : {1, 16, 17, 100, 1000}) {
      for (bool special : {false, true}) {
        list.add(fmt::format("act {}{} cols {} special {}", static_cast<int>(act), gated ? " gated" : "",
                             cols, special),
                 [=](OpFrame& f) {
                   const Fill fill = special ? with_specials(normal_values(2)) : normal_values(2);
                   const TensorView x = f.act_input({25, cols}, fill, 2);
                   const TensorView gate = gated ? f.act_input({25, cols}, fill, 1) : TensorView{};
                   const TensorView dx = f.act_inout({25, cols}, normal_values(), kActTolerance);
                   // Gradients are products of three values of up to 10.
                   const Tolerance dgate_tolerance = {64 * kEpsilon, 16 * kEpsilon};
                   f.run(&KernelTable::act_backward,
                         {.act = act,
                          .dx = dx,
                          .dgate = gated ? f.act_output({25, cols}, dgate_tolerance, 4) : TensorView{},
                          .dout = special ? dx : f.act_input({25, cols}, normal_values(), 5),
                          .x = x,
                          .gate = gate});
                 });
      }
    }
    list.add(
        fmt::format("act {}{} wide range", static_cast<int>(act), gated ? " gated" : ""), [=](OpFrame& f) {
          const Fill ramp = [](int64_t i, RandomStream&) { return (static_cast<double>(i) - 5000) / 500; };
          const TensorView x = f.act_input({1, 10001}, ramp);
          const TensorView dout = f.act_input({1, 10001}, constant_values(1));
          f.run(&KernelTable::act_backward,
                {.act = act,
                 .dx = f.act_output({1, 10001}, {32 * kEpsilon, 16 * kEpsilon}),
                 .dgate = gated ? f.act_output({1, 10001}, {64 * kEpsilon, 16 * kEpsilon}) : TensorView{},
                 .dout = dout,
                 .x = x,
                 .gate = gated ? x : TensorView{}});
        });
  }
}

// The result is the sum of two products of values of order one (values reach 5).
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
                     const TensorView x = f.act_inout({rows, 3 * dim}, normal_values(),
                                                      {16 * kEpsilon, 4 * kEpsilon}, dim + 1);
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

// tanh has an error of 3 ulp, for an argument that is off by 1.5 ulp. The slope of tanh is at most one.
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

// The parameters of a cross-entropy case.
struct LossShape {
  int64_t rows, vocab;
  double spread = 3;  // standard deviation of the logits
  double softcap = 0;
  double temperature = 1;
  bool gradient = true, in_place = false, weighted = false;
};

// The loss is a difference of values of up to |z|, and softcapped logits are off by a few ulp of the cap. The
// relative error of a probability is |z - top| epsilon from the argument of e^x, plus the error of z. For |z
// - top| > 16 the probability itself is below epsilon.
void loss_case(OpCaseList& list, const LossShape& s) {
  list.add(fmt::format("{}x{} spread {} softcap {} temperature {} gradient {}{}{}", s.rows, s.vocab, s.spread,
                       s.softcap, s.temperature, s.gradient, s.in_place ? " in place" : "",
                       s.weighted ? " weighted" : ""),
           [=](OpFrame& f) {
             static constexpr StepState kStep = {.loss_scale = 0.5, .loss_weight = 0.25};
             const double scale = kStep.loss_scale * kStep.loss_weight / s.temperature;
             // Logits z are within five standard deviations. Division by the temperature rounds them once
             // more.
             const double largest = s.softcap > 0 ? s.softcap : 5 * s.spread;
             const double z_error = (8 + 8 * s.softcap) / s.temperature * kEpsilon +
                                    (s.temperature == 1 ? 0 : 2 * largest / s.temperature * kEpsilon);
             const Tolerance gradient = {scale * (z_error + 16 * kEpsilon), z_error + 40 * kEpsilon};
             const Fill fill = normal_values(s.spread);
             CrossEntropyArgs a{};
             a.step = array_of(kStep);
             a.softcap = s.softcap;
             a.temperature = s.temperature;
             a.logits = s.in_place ? f.inout({s.rows, s.vocab}, fill, gradient, 3)
                                   : f.input({s.rows, s.vocab}, fill, 1);
             a.targets = f.ints(s.rows, -1, s.vocab - 1);
             std::vector<float> weights(static_cast<size_t>(s.rows));
             for (size_t n = 0; n < weights.size(); ++n)
               weights[n] = 0.25f * static_cast<float>(n % 5);
             if (s.weighted) a.weights = array_of(weights);
             a.losses = f.output_doubles(s.rows, {2 * z_error + 40 * kEpsilon, 4 * kEpsilon});
             if (s.gradient) a.dlogits = s.in_place ? a.logits : f.act_output({s.rows, s.vocab}, gradient, 2);
             f.run(&KernelTable::cross_entropy, a);
           });
}

// Adds a case that overwrites the logits with the gradient. Each gradient row begins at the start of its row
// of logits.
void loss_over_logits_case(OpCaseList& list, int64_t vocab, double softcap) {
  list.add(fmt::format("over the logits, {} softcap {}", vocab, softcap), [=](OpFrame& f) {
    const int64_t rows = 9;
    const auto unit = static_cast<int64_t>(dtype_size(f.dtype()));
    const auto narrow = static_cast<int64_t>(dtype_size(f.act()));
    const TensorView logits = f.input({rows, vocab}, normal_values(3));
    std::vector<double> memory(static_cast<size_t>(rows * vocab));
    TensorView x = make_view(memory.data(), f.dtype(), {rows, vocab});
    std::memcpy(x.data, logits.data, static_cast<size_t>(rows * vocab * unit));
    TensorView dx = make_view(memory.data(), f.act(), {rows, vocab});
    dx.ld = vocab * unit / narrow;
    const double z_error = (8 + 8 * softcap) * kEpsilon;
    f.run(&KernelTable::cross_entropy,
          {.logits = x,
           .targets = f.ints(rows, -1, vocab - 1),
           .losses = f.output_doubles(rows, {2 * z_error + 40 * kEpsilon, 4 * kEpsilon}),
           .dlogits = dx,
           .softcap = softcap});
    const TensorView got = f.act_output({rows, vocab}, {z_error + 16 * kEpsilon, z_error + 40 * kEpsilon});
    for (int64_t n = 0; n < rows; ++n) {
      std::memcpy(static_cast<char*>(got.data) + n * vocab * narrow,
                  static_cast<char*>(dx.data) + n * vocab * unit, static_cast<size_t>(vocab * narrow));
    }
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
    for (int64_t vocab : {9, 301})
      loss_case(list, {.rows = 11, .vocab = vocab, .softcap = softcap, .weighted = true});
    for (double temperature : {0.5, 1.7}) {
      for (int64_t vocab : {9, 2049})
        loss_case(
            list,
            {.rows = 7, .vocab = vocab, .softcap = softcap, .temperature = temperature, .weighted = true});
      loss_case(list,
                {.rows = 7, .vocab = 301, .softcap = softcap, .temperature = temperature, .in_place = true});
    }
    for (int64_t vocab : {1, 2, 17, 2049, 5003})
      loss_over_logits_case(list, vocab, softcap);
  }
  loss_case(list, {.rows = 6, .vocab = 9, .spread = 2, .softcap = 3});
  loss_over_logits_case(list, 9, 3);
  // Vectors, chunks and whole rows contain -inf, NaN or +inf.
  for (int64_t bad_from : {0, 2048, 5000}) {
    for (double bad : {-HUGE_VAL, HUGE_VAL, std::nan("")}) {
      list.add(fmt::format("{} from {}", bad, bad_from), [=](OpFrame& f) {
        const Fill fill = [=](int64_t i, RandomStream& random) {
          const double x = test::bell(random);
          const int64_t row = i / 6000, v = i % 6000;
          return row == 2 || (v >= bad_from && v < bad_from + (row == 0 ? 1 : 2500)) ? bad : x;
        };
        const TensorView logits = f.input({3, 6000}, fill);
        const CaseArray<int32_t> targets = f.ints(3, 0, 0);
        for (int i = 0; i < 3; ++i)
          targets[i] = 5500;
        f.run(&KernelTable::cross_entropy,
              {.logits = logits,
               .targets = targets,
               .losses = f.output_doubles(3, {40 * kEpsilon, 4 * kEpsilon}),
               .dlogits = f.act_output({3, 6000}, {16 * kEpsilon, 40 * kEpsilon})});
      });
    }
  }
}

}  // namespace
}  // namespace gpt::testing
