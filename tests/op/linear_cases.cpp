#include <fmt/format.h>

#include <cmath>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

struct LinearShape {
  int64_t rows, out, in;
};

// Tails of every tile (12 and 4 rows, 32 and 24 columns, blocks of k), both ways of packing, and nothing.
constexpr LinearShape kShapes[] = {{0, 5, 7},     {1, 1, 1},     {11, 7, 5},    {1, 70, 33},
                                   {3, 17, 50},   {5, 65, 128},  {13, 31, 321}, {48, 64, 40},
                                   {49, 100, 67}, {64, 96, 16},  {200, 3, 130}, {97, 7, 1},
                                   {70, 4, 650},  {30, 650, 20}, {2050, 8, 11}, {120, 130, 97}};
// More than one panel of packed weights, along k and along the outputs; more than one block of few rows.
constexpr LinearShape kLargeShapes[] = {{49, 580, 2100}, {2, 50, 2600}, {2100, 60, 580}};

// Blocks of 32: tails of the strips of 32 outputs and of tiles of 2 and 6 rows, more than one task.
constexpr LinearShape kBlockShapes[] = {{0, 5, 32},  {1, 1, 32},   {1, 70, 64},    {2, 33, 96}, {3, 32, 0},
                                        {6, 31, 32}, {13, 65, 64}, {97, 100, 320}, {200, 9, 96}};

std::string name(const LinearShape& s, const char* what) {
  return fmt::format("{}x{} from {}{}", s.rows, s.out, s.in, what);
}

ScratchNeed scratch(const OpFrame& f, const LinearShape& s) {
  return linear_scratch(s.rows, s.out, s.in, f.dtype());
}

// A weight matrix as an op takes it: packed from two parts for products in `dtype`, where there is such a
// form, else plain (which means fp32).
struct Weights {
  TensorView plain;
  Buffer memory;
  PackedMatrix packed;

  const PackedMatrix* matrix() const { return packed.data ? &packed : nullptr; }
  TensorView w() const { return packed.data ? TensorView{} : plain; }
};

Weights pack(OpFrame& f, const LinearShape& s, DType dtype, bool transposed, const TensorView& w) {
  Weights result{.plain = w};
  const auto bytes = static_cast<size_t>(packed_bytes(f.kernels().isa, dtype, s.out, s.in, transposed));
  if (bytes == 0) return result;
  result.memory = Buffer(bytes, "a packed matrix");
  result.packed = {result.memory.data(), dtype, s.out, s.in, transposed};
  const int64_t cut = s.out / 3;
  const TensorView parts[] = {w.row_range(0, cut), w.row_range(cut, s.out - cut)};
  f.run(&KernelTable::pack_matrix, {.dst = &result.packed, .parts = parts});
  return result;
}

// Views are column slices of wider matrices.
void forward(OpFrame& f, const LinearShape& s, bool bias, bool row_invariant) {
  const TensorView x = f.act_input({s.rows, s.in}, normal_values(), 3);
  const TensorView w = f.input({s.out, s.in}, normal_values(), bias ? 2 : 0);
  const TensorView b = bias ? f.input({s.out}, normal_values()) : TensorView{};
  f.run(&KernelTable::linear_forward,
        {.y = f.act_output({s.rows, s.out}, sum_of(s.in), 5),
         .x = x,
         .w = w,
         .bias = b,
         .row_invariant = row_invariant},
        scratch(f, s));
}

// A matrix [out,in] that is stored as [in,out], a column slice of a wider one.
TensorView transposed_input(OpFrame& f, const LinearShape& s) {
  TensorView w = f.input({s.in, s.out}, normal_values(), 3);
  w.transposed = true;
  std::swap(w.shape[0], w.shape[1]);
  return w;
}

void forward_transposed(OpFrame& f, const LinearShape& s) {
  const TensorView x = f.act_input({s.rows, s.in}, normal_values());
  const TensorView w = transposed_input(f, s);
  const TensorView b = f.input({s.out}, normal_values());
  f.run(&KernelTable::linear_forward,
        {.y = f.act_output({s.rows, s.out}, sum_of(s.in)), .x = x, .w = w, .bias = b}, scratch(f, s));
}

// What a packed matrix holds shows in its products alone.
void packed(OpFrame& f, const LinearShape& s, DType dtype, bool stored_transposed) {
  const TensorView x = f.act_input({s.rows, s.in}, normal_values(), 4);
  const TensorView w =
      stored_transposed ? transposed_input(f, s) : f.input({s.out, s.in}, normal_values(), 2);
  const TensorView y = f.act_output({s.rows, s.out}, sum_of(s.in), 5);
  const Weights weights = pack(f, s, dtype, false, w);
  if (is_quantized(dtype) && !weights.matrix()) return;
  f.run(&KernelTable::linear_forward, {.y = y, .x = x, .w = weights.w(), .packed = weights.matrix()},
        linear_scratch(s.rows, s.out, s.in, dtype));
}

void backward_input(OpFrame& f, const LinearShape& s, bool accumulate) {
  const TensorView dy = f.act_input({s.rows, s.out}, normal_values(), 5);
  const TensorView w = f.input({s.out, s.in}, normal_values(), 1);
  const TensorView dx = accumulate ? f.act_inout({s.rows, s.in}, normal_values(), sum_of(s.out), 2)
                                   : f.act_output({s.rows, s.in}, sum_of(s.out), 2);
  f.run(&KernelTable::linear_backward_input, {.dx = dx, .dy = dy, .w = w, .accumulate = accumulate},
        scratch(f, s));
}

void packed_backward_input(OpFrame& f, const LinearShape& s, DType dtype, bool accumulate) {
  const TensorView dy = f.act_input({s.rows, s.out}, normal_values(), 4);
  const TensorView w = f.input({s.out, s.in}, normal_values(), 1);
  const TensorView dx = accumulate ? f.act_inout({s.rows, s.in}, normal_values(), sum_of(s.out), 2)
                                   : f.act_output({s.rows, s.in}, sum_of(s.out), 2);
  const Weights weights = pack(f, s, dtype, true, w);
  f.run(&KernelTable::linear_backward_input,
        {.dx = dx, .dy = dy, .w = weights.w(), .accumulate = accumulate, .packed = weights.matrix()},
        linear_scratch(s.rows, s.out, s.in, dtype));
}

// An activation of a sum s of `terms` products, |s| < 6 sqrt(terms): the error of the sum times the largest
// slope, and a few roundings of numbers of the size of the result.
Tolerance after(Act act, int64_t terms) {
  const double size = 6 * std::sqrt(static_cast<double>(terms));
  const double slope = act == Act::relu2 ? 2 * size : 1.2;
  return {.absolute = slope * sum_of(terms).absolute + 8 * kEpsilon * size, .relative = 16 * kEpsilon};
}

void forward_act(OpFrame& f, const LinearShape& s, DType dtype, Act act) {
  const TensorView x = f.act_input({s.rows, s.in}, normal_values());
  const TensorView w = f.input({s.out, s.in}, normal_values());
  const TensorView bias = f.input({s.out}, normal_values());
  const TensorView y = f.act_output({s.rows, s.out}, after(act, s.in), 1);
  const TensorView pre = f.act_output({s.rows, s.out}, sum_of(s.in), 2);
  const Weights weights = pack(f, s, dtype, false, w);
  f.run(&KernelTable::linear_forward,
        {.y = y, .x = x, .w = weights.w(), .bias = bias, .packed = weights.matrix(), .act = act, .pre = pre},
        linear_scratch(s.rows, s.out, s.in, dtype));
}

// Slopes err by a few roundings of their size, which is that of a normal number.
void backward_act(OpFrame& f, const LinearShape& s, DType dtype, Act act) {
  const double size = 6 * std::sqrt(static_cast<double>(s.out)), slope = act == Act::relu2 ? 12 : 1.2;
  const Tolerance tolerance{.absolute = slope * (sum_of(s.out).absolute + 16 * kEpsilon * size),
                            .relative = 8 * kEpsilon};
  const TensorView dy = f.act_input({s.rows, s.out}, normal_values());
  const TensorView w = f.input({s.out, s.in}, normal_values());
  const TensorView pre = f.act_input({s.rows, s.in}, normal_values(), 1);
  const TensorView dx = f.act_output({s.rows, s.in}, tolerance, 2);
  const Weights weights = pack(f, s, dtype, true, w);
  f.run(&KernelTable::linear_backward_input,
        {.dx = dx, .dy = dy, .w = weights.w(), .packed = weights.matrix(), .act = act, .pre = pre},
        linear_scratch(s.rows, s.out, s.in, dtype));
}

void backward_weight(OpFrame& f, const LinearShape& s, bool accumulate, bool bias,
                     DType compute = DType::f32) {
  const TensorView dy = f.act_input({s.rows, s.out}, normal_values(), 5);
  const TensorView x = f.act_input({s.rows, s.in}, normal_values(), 3);
  const Tolerance tolerance = sum_of(s.rows);
  const auto gradient = [&](std::initializer_list<int64_t> shape) {
    return accumulate ? f.inout(shape, normal_values(), tolerance) : f.output(shape, tolerance);
  };
  const TensorView dw = gradient({s.out, s.in});
  const TensorView db = bias ? gradient({s.out}) : TensorView{};
  f.run(&KernelTable::linear_backward_weight,
        {.dw = dw, .dbias = db, .dy = dy, .x = x, .accumulate = accumulate, .compute = compute},
        linear_scratch(s.rows, s.out, s.in, compute));
}

constexpr DType kComputes[] = {DType::f32, DType::bf16, DType::f16};
// Tails of tiles in both directions; one block of k, whole and odd, and more than one.
constexpr LinearShape kActShapes[] = {{1, 70, 34}, {13, 31, 321}, {49, 100, 66}, {25, 40, 1100}};

std::string name(const LinearShape& s, DType compute, std::string_view what = "") {
  return fmt::format("{}x{} from {} in {}{}", s.rows, s.out, s.in, dtype_name(compute), what);
}

GPT_OP_CASES(linear_forward) {
  for (const LinearShape& s : kShapes) {
    list.add(name(s, ""), [=](OpFrame& f) { forward(f, s, false, false); });
    list.add(name(s, ", bias"), [=](OpFrame& f) { forward(f, s, true, true); });
    list.add(name(s, ", stored transposed"), [=](OpFrame& f) { forward_transposed(f, s); });
  }
  for (const LinearShape& s : kLargeShapes) {
    list.add(name(s, ", large"), [=](OpFrame& f) { forward(f, s, true, true); });
  }
  for (DType t : kComputes) {
    for (const LinearShape& s : kActShapes) {
      for (Act act : {Act::gelu_tanh, Act::relu2})
        list.add(name(s, t, act == Act::relu2 ? ", relu2" : ", gelu_tanh"),
                 [=](OpFrame& f) { forward_act(f, s, t, act); });
    }
  }
}

GPT_OP_CASES(pack_matrix) {
  for (DType dtype : kComputes) {
    for (const LinearShape& s : kShapes) {
      list.add(name(s, dtype), [=](OpFrame& f) { packed(f, s, dtype, false); });
      list.add(name(s, dtype, ", transposed"), [=](OpFrame& f) { packed(f, s, dtype, true); });
    }
  }
  for (DType dtype : {DType::q8_0, DType::q4_0}) {
    for (const LinearShape& s : kBlockShapes) {
      list.add(name(s, dtype), [=](OpFrame& f) { packed(f, s, dtype, false); });
      list.add(name(s, dtype, ", transposed"), [=](OpFrame& f) { packed(f, s, dtype, true); });
    }
  }
}

GPT_OP_CASES(linear_backward_input) {
  for (const LinearShape& s : kShapes) {
    list.add(name(s, ""), [=](OpFrame& f) { backward_input(f, s, false); });
    list.add(name(s, ", accumulate"), [=](OpFrame& f) { backward_input(f, s, true); });
  }
  for (const LinearShape& s : kLargeShapes) {
    list.add(name(s, ", large"), [=](OpFrame& f) { backward_input(f, s, true); });
  }
  for (DType t : kComputes) {
    for (const LinearShape& s : kActShapes) {
      list.add(name(s, t), [=](OpFrame& f) { packed_backward_input(f, s, t, false); });
      list.add(name(s, t, ", accumulate"), [=](OpFrame& f) { packed_backward_input(f, s, t, true); });
      for (Act act : {Act::gelu, Act::relu})
        list.add(name(s, t, act == Act::relu ? ", relu" : ", gelu"),
                 [=](OpFrame& f) { backward_act(f, s, t, act); });
    }
  }
}

GPT_OP_CASES(linear_backward_weight) {
  for (const LinearShape& s : kShapes) {
    list.add(name(s, ", accumulate"), [=](OpFrame& f) { backward_weight(f, s, true, false); });
    list.add(name(s, ", bias"), [=](OpFrame& f) { backward_weight(f, s, false, true); });
    list.add(name(s, ", bias, accumulate"), [=](OpFrame& f) { backward_weight(f, s, true, true); });
  }
  for (const LinearShape& s : kLargeShapes) {
    list.add(name(s, ", large"), [=](OpFrame& f) { backward_weight(f, s, true, false); });
  }
  for (DType t : {DType::bf16, DType::f16}) {
    for (const LinearShape& s : kActShapes) {
      list.add(name(s, t), [=](OpFrame& f) { backward_weight(f, s, false, true, t); });
      list.add(name(s, t, ", accumulate"), [=](OpFrame& f) { backward_weight(f, s, true, true, t); });
    }
    list.add(name({1100, 50, 40}, t), [=](OpFrame& f) { backward_weight(f, {1100, 50, 40}, true, true, t); });
  }
  // Small outputs with a long inner dimension: where a library would cut the sum by the thread count.
  for (const LinearShape& s : {LinearShape{4096, 64, 64}, LinearShape{8192, 16, 64}, LinearShape{40000, 2, 3},
                               LinearShape{4096, 65, 128}}) {
    list.add(name(s, ", long"), [=](OpFrame& f) { backward_weight(f, s, false, true); });
  }
}

}  // namespace
}  // namespace gpt::testing
