#include <fmt/format.h>

#include <cmath>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

struct LinearShape {
  int64_t rows, out, in;
};

// Covers partial tiles of every size (12 and 6 rows, 32 and 16 columns, blocks of k), both packing methods,
// and zero rows.
constexpr LinearShape kShapes[] = {{0, 5, 7},     {1, 1, 1},     {11, 7, 5},    {1, 70, 33},
                                   {3, 17, 50},   {5, 65, 128},  {13, 31, 321}, {48, 64, 40},
                                   {49, 100, 67}, {64, 96, 16},  {200, 3, 130}, {97, 7, 1},
                                   {70, 4, 650},  {30, 650, 20}, {2050, 8, 11}, {120, 130, 97}};
// Covers more than one panel of packed weights along k and along the outputs, and more than one block for few
// rows.
constexpr LinearShape kLargeShapes[] = {{49, 580, 2100}, {2, 50, 2600}, {2100, 60, 580}};

// Covers quantization blocks of 32: partial strips of 32 outputs, partial tiles of 2 and 6 rows, and more
// than one task.
constexpr LinearShape kBlockShapes[] = {{0, 5, 32},  {1, 1, 32},   {1, 70, 64},    {2, 33, 96}, {3, 32, 0},
                                        {6, 31, 32}, {13, 65, 64}, {97, 100, 320}, {200, 9, 96}};

std::string name(const LinearShape& s, const char* what) {
  return fmt::format("{}x{} from {}{}", s.rows, s.out, s.in, what);
}

// A weight matrix in the form that an op takes. If a packed form exists for matmuls in `dtype`, it is packed
// from two parts. Otherwise the matrix is plain, which means fp32.
struct Weights {
  TensorView plain;
  Buffer memory;
  PackedMatrix packed;

  TensorView w() const { return packed ? TensorView{} : plain; }
};

Weights pack(OpFrame& f, const LinearShape& s, DType dtype, bool transposed, const TensorView& w) {
  Weights result{.plain = w};
  const auto bytes = static_cast<size_t>(f.kernels().packed_bytes(dtype, s.out, s.in, transposed));
  if (bytes == 0) return result;
  result.memory = Buffer(bytes, "a packed matrix");
  result.packed = {result.memory.data(), dtype, s.out, s.in, transposed};
  const int64_t cut = s.out / 3;
  const TensorView parts[] = {w.slice_rows(0, cut), w.slice_rows(cut, s.out - cut)};
  f.run(&KernelTable::pack_matrix, {.dst = result.packed, .parts = parts});
  return result;
}

// Returns a matrix [out,in] that is stored as [in,out] in a column slice of a wider matrix.
TensorView transposed_input(OpFrame& f, const LinearShape& s) {
  TensorView w = f.input({s.in, s.out}, normal_values(), 3);
  w.transposed = true;
  std::swap(w.shape[0], w.shape[1]);
  return w;
}

// Returns the tolerance of an activation of a sum s of `terms` products, where |s| < 6 sqrt(terms). The
// tolerance is the error of the sum times the largest slope, plus a few roundings of values as large as the
// result.
Tolerance after(Activation act, int64_t terms) {
  const double size = 6 * std::sqrt(static_cast<double>(terms));
  const double slope = act == Activation::relu2 ? 2 * size : 1.2;
  return {.absolute = slope * sum_of(terms).absolute + 8 * kEpsilon * size, .relative = 16 * kEpsilon};
}

// Optional properties of a case. Views are column slices of wider matrices.
struct Has {
  bool bias = false, stored_transposed = false, accumulate = false, row_invariant = false;
  std::optional<DType> packed = {};  // checked only through matmuls, because the packed format is opaque
  std::optional<Activation> act = {};
};

Weights weights(OpFrame& f, const LinearShape& s, const Has& has, bool transposed, const TensorView& w) {
  return has.packed ? pack(f, s, *has.packed, transposed, w) : Weights{.plain = w};
}
ScratchNeed scratch(const OpFrame& f, const LinearShape& s, const Has& has, bool backward) {
  return f.kernels().linear_scratch(s.rows, s.out, s.in, has.packed.value_or(f.dtype()), backward);
}

void forward(OpFrame& f, const LinearShape& s, const Has& has) {
  const TensorView x = f.act_input({s.rows, s.in}, normal_values(), 3);
  const TensorView w =
      has.stored_transposed ? transposed_input(f, s) : f.input({s.out, s.in}, normal_values(), 2);
  const TensorView bias = has.bias ? f.input({s.out}, normal_values()) : TensorView{};
  const TensorView y = f.act_output({s.rows, s.out}, has.act ? after(*has.act, s.in) : sum_of(s.in), 5);
  const TensorView pre = has.act ? f.act_output({s.rows, s.out}, sum_of(s.in), 2) : TensorView{};
  const Weights m = weights(f, s, has, false, w);
  if (has.packed && is_quantized(*has.packed) && !m.packed) return;
  f.run(&KernelTable::linear_forward,
        {.y = y,
         .x = x,
         .w = m.w(),
         .bias = bias,
         .row_invariant = has.row_invariant,
         .packed = m.packed,
         .act = has.act,
         .pre = pre},
        scratch(f, s, has, false));
}

// With an activation, slopes are off by a few roundings relative to their size. The inputs are normally
// distributed.
void backward_input(OpFrame& f, const LinearShape& s, const Has& has) {
  Tolerance tolerance = sum_of(s.out);
  if (has.act) {
    const double size = 6 * std::sqrt(static_cast<double>(s.out)),
                 slope = *has.act == Activation::relu2 ? 12 : 1.2;
    tolerance = {.absolute = slope * (tolerance.absolute + 16 * kEpsilon * size), .relative = 8 * kEpsilon};
  }
  const TensorView dy = f.act_input({s.rows, s.out}, normal_values(), 5);
  const TensorView w =
      has.stored_transposed ? transposed_input(f, s) : f.input({s.out, s.in}, normal_values(), 1);
  const TensorView pre = has.act ? f.act_input({s.rows, s.in}, normal_values(), 1) : TensorView{};
  const TensorView dx = has.accumulate ? f.act_inout({s.rows, s.in}, normal_values(), tolerance, 2)
                                       : f.act_output({s.rows, s.in}, tolerance, 2);
  const Weights m = weights(f, s, has, true, w);
  f.run(&KernelTable::linear_backward_input,
        {.dx = dx,
         .dy = dy,
         .w = m.w(),
         .accumulate = has.accumulate,
         .packed = m.packed,
         .act = has.act,
         .pre = pre},
        scratch(f, s, has, true));
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
        f.kernels().linear_scratch(s.rows, s.out, s.in, compute, true));
}

constexpr DType kComputes[] = {DType::f32, DType::bf16, DType::f16};
// Covers partial tiles in both directions, one block of k of even and odd size, and several blocks of k.
constexpr LinearShape kActShapes[] = {{1, 70, 34}, {13, 31, 321}, {49, 100, 66}, {25, 40, 1100}};

std::string name(const LinearShape& s, DType compute, std::string_view what = "") {
  return fmt::format("{}x{} from {} in {}{}", s.rows, s.out, s.in, dtype_name(compute), what);
}

GPT_OP_CASES(linear_forward) {
  for (const LinearShape& s : kShapes) {
    list.add(name(s, ""), [=](OpFrame& f) { forward(f, s, {}); });
    list.add(name(s, ", bias"), [=](OpFrame& f) { forward(f, s, {.bias = true, .row_invariant = true}); });
    list.add(name(s, ", stored transposed"),
             [=](OpFrame& f) { forward(f, s, {.bias = true, .stored_transposed = true}); });
  }
  for (const LinearShape& s : kLargeShapes) {
    list.add(name(s, ", large"), [=](OpFrame& f) { forward(f, s, {.bias = true, .row_invariant = true}); });
  }
  for (DType t : kComputes) {
    for (const LinearShape& s : kActShapes) {
      for (Activation act : {Activation::gelu_tanh, Activation::relu2})
        list.add(name(s, t, act == Activation::relu2 ? ", relu2" : ", gelu_tanh"),
                 [=](OpFrame& f) { forward(f, s, {.bias = true, .packed = t, .act = act}); });
    }
  }
}

GPT_OP_CASES(pack_matrix) {
  for (DType dtype : kComputes) {
    for (const LinearShape& s : kShapes) {
      list.add(name(s, dtype), [=](OpFrame& f) { forward(f, s, {.packed = dtype}); });
      list.add(name(s, dtype, ", transposed"),
               [=](OpFrame& f) { forward(f, s, {.stored_transposed = true, .packed = dtype}); });
    }
  }
  for (DType dtype : {DType::q8_0, DType::q4_0}) {
    for (const LinearShape& s : kBlockShapes) {
      list.add(name(s, dtype), [=](OpFrame& f) { forward(f, s, {.packed = dtype}); });
      list.add(name(s, dtype, ", transposed"),
               [=](OpFrame& f) { forward(f, s, {.stored_transposed = true, .packed = dtype}); });
    }
  }
}

GPT_OP_CASES(linear_backward_input) {
  for (const LinearShape& s : kShapes) {
    list.add(name(s, ""), [=](OpFrame& f) { backward_input(f, s, {}); });
    list.add(name(s, ", accumulate"), [=](OpFrame& f) { backward_input(f, s, {.accumulate = true}); });
    list.add(name(s, ", stored transposed"),
             [=](OpFrame& f) { backward_input(f, s, {.stored_transposed = true, .accumulate = true}); });
  }
  for (const LinearShape& s : kLargeShapes) {
    list.add(name(s, ", large"), [=](OpFrame& f) { backward_input(f, s, {.accumulate = true}); });
  }
  for (DType t : kComputes) {
    for (const LinearShape& s : kActShapes) {
      list.add(name(s, t), [=](OpFrame& f) { backward_input(f, s, {.packed = t}); });
      list.add(name(s, t, ", accumulate"),
               [=](OpFrame& f) { backward_input(f, s, {.accumulate = true, .packed = t}); });
      for (Activation act : {Activation::gelu, Activation::relu})
        list.add(name(s, t, act == Activation::relu ? ", relu" : ", gelu"),
                 [=](OpFrame& f) { backward_input(f, s, {.packed = t, .act = act}); });
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
  // Small outputs with a long inner dimension. A BLAS library would split this sum by the number of threads.
  for (const LinearShape& s : {LinearShape{4096, 64, 64}, LinearShape{8192, 16, 64}, LinearShape{40000, 2, 3},
                               LinearShape{4096, 65, 128}}) {
    list.add(name(s, ", long"), [=](OpFrame& f) { backward_weight(f, s, false, true); });
  }
}

}  // namespace
}  // namespace gpt::testing
