#include <fmt/format.h>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

struct LinearShape {
  int64_t rows, out, in;
};

// Tails of every tile (12 and 4 rows, 32 and 24 columns, blocks of k), both ways of packing, and nothing.
constexpr LinearShape kShapes[] = {{0, 5, 7},     {1, 1, 1},    {1, 70, 33},   {3, 17, 50},   {5, 65, 128},
                                   {13, 31, 321}, {48, 64, 40}, {49, 100, 67}, {64, 96, 16},  {200, 3, 130},
                                   {97, 7, 1},    {70, 4, 650}, {30, 650, 20}, {2050, 8, 11}, {120, 130, 97}};
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

// Views are column slices of wider matrices.
void forward(OpFrame& f, const LinearShape& s, bool bias, bool row_invariant) {
  const TensorView x = f.input({s.rows, s.in}, normal_values(), 3);
  const TensorView w = f.input({s.out, s.in}, normal_values(), bias ? 2 : 0);
  const TensorView b = bias ? f.input({s.out}, normal_values()) : TensorView{};
  f.run(&KernelTable::linear_forward,
        {.y = f.output({s.rows, s.out}, sum_of(s.in), 5),
         .x = x,
         .w = w,
         .bias = b,
         .row_invariant = row_invariant},
        scratch(f, s));
}

// Packs w from two parts and multiplies by it: what a packed matrix holds shows in its products alone.
void packed(OpFrame& f, const LinearShape& s, DType dtype) {
  const TensorView x = f.act_input({s.rows, s.in}, normal_values(), 3);
  const TensorView w = f.input({s.out, s.in}, normal_values(), 2);
  const TensorView y = f.act_output({s.rows, s.out}, sum_of(s.in), 5);
  const auto bytes = static_cast<size_t>(packed_bytes(f.kernels().isa, dtype, s.out, s.in, false));
  if (bytes == 0) {
    if (dtype == DType::f32) f.run(&KernelTable::linear_forward, {.y = y, .x = x, .w = w}, scratch(f, s));
    return;
  }
  const Buffer memory(bytes, "a packed matrix");
  PackedMatrix m{.data = memory.data(), .dtype = dtype, .out = s.out, .in = s.in};
  const int64_t cut = s.out / 3;
  const TensorView parts[] = {w.row_range(0, cut), w.row_range(cut, s.out - cut)};
  f.run(&KernelTable::pack_matrix, {.dst = &m, .parts = parts});
  f.run(&KernelTable::linear_forward, {.y = y, .x = x, .packed = &m},
        linear_scratch(s.rows, s.out, s.in, dtype));
}

void backward_input(OpFrame& f, const LinearShape& s, bool accumulate) {
  const TensorView dy = f.input({s.rows, s.out}, normal_values(), 5);
  const TensorView w = f.input({s.out, s.in}, normal_values(), 1);
  const TensorView dx = accumulate ? f.inout({s.rows, s.in}, normal_values(), sum_of(s.out), 2)
                                   : f.output({s.rows, s.in}, sum_of(s.out), 2);
  f.run(&KernelTable::linear_backward_input, {.dx = dx, .dy = dy, .w = w, .accumulate = accumulate},
        scratch(f, s));
}

void backward_weight(OpFrame& f, const LinearShape& s, bool accumulate, bool bias) {
  const TensorView dy = f.input({s.rows, s.out}, normal_values(), 5);
  const TensorView x = f.input({s.rows, s.in}, normal_values(), 3);
  const Tolerance tolerance = sum_of(s.rows);
  const auto gradient = [&](std::initializer_list<int64_t> shape) {
    return accumulate ? f.inout(shape, normal_values(), tolerance) : f.output(shape, tolerance);
  };
  const TensorView dw = gradient({s.out, s.in});
  const TensorView db = bias ? gradient({s.out}) : TensorView{};
  f.run(&KernelTable::linear_backward_weight,
        {.dw = dw, .dbias = db, .dy = dy, .x = x, .accumulate = accumulate}, scratch(f, s));
}

GPT_OP_CASES(linear_forward) {
  for (const LinearShape& s : kShapes) {
    list.add(name(s, ""), [=](OpFrame& f) { forward(f, s, false, false); });
    list.add(name(s, ", bias"), [=](OpFrame& f) { forward(f, s, true, true); });
  }
  for (const LinearShape& s : kLargeShapes) {
    list.add(name(s, ", large"), [=](OpFrame& f) { forward(f, s, true, true); });
  }
}

GPT_OP_CASES(pack_matrix) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const LinearShape& s : kShapes) {
      list.add(name(s, ", ") + std::string(dtype_name(dtype)), [=](OpFrame& f) { packed(f, s, dtype); });
    }
  }
  for (DType dtype : {DType::q8_0, DType::q4_0}) {
    for (const LinearShape& s : kBlockShapes) {
      list.add(name(s, ", ") + std::string(dtype_name(dtype)), [=](OpFrame& f) { packed(f, s, dtype); });
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
  // Small outputs with a long inner dimension: where a library would cut the sum by the thread count.
  for (const LinearShape& s : {LinearShape{4096, 64, 64}, LinearShape{8192, 16, 64}, LinearShape{40000, 2, 3},
                               LinearShape{4096, 65, 128}}) {
    list.add(name(s, ", long"), [=](OpFrame& f) { backward_weight(f, s, false, true); });
  }
}

}  // namespace
}  // namespace gpt::testing
