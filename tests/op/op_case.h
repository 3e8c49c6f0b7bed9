#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "support/arrays.h"
#include "support/isas.h"
#include "support/shadow_device.h"

// Tests of single ops. One declaration per op, a function that adds cases, is run for every instruction set
// against the scalar reference in double: results within a tolerance, inputs and the memory around every
// tensor untouched, unaligned memory, and equal bits for 1, 2, 3 and 7 threads.
//
//   GPT_OP_CASES(add) {
//     for (int64_t n : {0, 1, 17})
//       list.add(fmt::format("{}", n), [=](OpFrame& f) {
//         const TensorView a = f.input({3, n}, normal_values()), b = f.input({3, n}, normal_values());
//         f.run(&KernelTable::add, {.out = f.output({3, n}, relative(1)), .a = a, .b = b});
//       });
//   }

namespace gpt::testing {

// What a tensor is filled with: value(i, stream) for element i. Values are rounded to float, so that the
// run in double starts from the same numbers.
using Fill = std::function<double(int64_t, RandomStream&)>;
Fill normal_values(double std = 1, double mean = 0);
Fill uniform_values(double low, double high);
Fill constant_values(double value);
// `fill` with NaN and both infinities strewn in: a kernel must pass them on like the reference.
Fill with_specials(Fill fill);

// |got - want| <= absolute + relative |want|; NaN and infinities must agree.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};
inline constexpr double kEpsilon = 0x1p-24;  // half a unit in the last place of 1.0f: one rounding
// n roundings of the result itself.
Tolerance relative(double n);
// A float sum of `terms` products of size about `size`: roundings add up like a random walk, sqrt(terms) of
// them on partial sums of up to sqrt(terms) size, so terms * size * epsilon; the factor 4 covers the maximum
// over many outputs.
Tolerance sum_of(int64_t terms, double size = 1);

using test::array_of;
using test::CaseArray;

// The memory of one run of one case. A case asks for its tensors, always in the same order, and calls
// run(); the frame plays that in float or in double. Tensor i of a case is filled from a stream of its own.
class OpFrame {
 public:
  struct Setup {
    const KernelTable& kernels;
    DType dtype = DType::f32;
    DType act = DType::f32;  // what activations are stored as, and rounded to in a run in double
    int threads = 1;
    int64_t misalign = 0;  // elements between an aligned address and the first element
    bool guards = true;    // without them overruns hit the heap's own, for the address sanitizer
    int calls = 1;         // of the op, one after another: bench/micro has more
  };
  OpFrame(const Setup& setup, const std::string& seed);

  // Tensors with ld = cols + ld_extra. Inputs must come back unchanged; outputs start as NaN.
  TensorView input(std::initializer_list<int64_t> shape, const Fill& fill, int64_t ld_extra = 0);
  TensorView output(std::initializer_list<int64_t> shape, Tolerance tolerance, int64_t ld_extra = 0);
  TensorView inout(std::initializer_list<int64_t> shape, const Fill& fill, Tolerance tolerance,
                   int64_t ld_extra = 0);
  // The same for activations. A tolerance does not count the rounding to the stored type.
  TensorView act_input(std::initializer_list<int64_t> shape, const Fill& fill, int64_t ld_extra = 0);
  TensorView act_output(std::initializer_list<int64_t> shape, Tolerance tolerance, int64_t ld_extra = 0);
  TensorView act_inout(std::initializer_list<int64_t> shape, const Fill& fill, Tolerance tolerance,
                       int64_t ld_extra = 0);
  // Outputs of one type whatever the run's.
  TensorView output_of(DType dtype, std::initializer_list<int64_t> shape, Tolerance tolerance,
                       int64_t ld_extra = 0);
  CaseArray<double> output_doubles(int64_t n, Tolerance tolerance);
  // Random integers in [low, high]; the caller may overwrite them.
  CaseArray<int32_t> ints(int64_t n, int64_t low, int64_t high);
  CaseArray<int64_t> longs(std::vector<int64_t> values);

  const KernelTable& kernels() const { return setup_.kernels; }
  DType dtype() const { return setup_.dtype; }
  DType act() const { return setup_.dtype == DType::f64 ? DType::f64 : setup_.act; }
  bool has_activations() const { return has_activations_; }  // that were asked for so far

  // Calls the op; the scratch memory starts out as NaN.
  template <class Args>
  void run(void (*KernelTable::*op)(const ExecContext&, const Args&) noexcept,
           const std::type_identity_t<Args>& args, ScratchNeed need = {}) {
    if (is_shadow()) return test::run_on_shadow(setup_.kernels, op, args, need);
    ThreadPool pool(setup_.threads);
    Workspace workspace(need, setup_.threads);
    poison(workspace);
    for (int i = 0; i < setup_.calls; ++i)
      (setup_.kernels.*op)(ExecContext{*device_, pool, setup_.kernels, workspace.scratch()}, args);
  }

  // Empty when all memory that must not change is as it was, else what changed.
  std::string damage() const;
  // Empty when every output is within its tolerance of the same output of `want`, else the first that is not.
  std::string difference(const OpFrame& want) const;
  // Empty when every output has the bits of the same output of `other`.
  std::string bit_difference(const OpFrame& other) const;

 private:
  enum class Role { input, output, inout };
  struct Tensor {
    std::vector<std::byte> memory, original;
    size_t first = 0;  // byte offset of element (0,0)
    int64_t rows, cols, ld;
    Role role;
    DType dtype;
    Tolerance tolerance;

    double at(int64_t r, int64_t c) const;
    const std::byte* address(int64_t r, int64_t c) const;
  };
  TensorView make(Role role, DType dtype, std::initializer_list<int64_t> shape, Tolerance tolerance,
                  int64_t ld_extra, const Fill& fill, DType precision = DType::f32);
  RandomStream stream(size_t i) const;
  void poison(const Workspace& workspace) const;

  Setup setup_;
  std::unique_ptr<HostDevice> device_ = std::make_unique<HostDevice>();
  std::string seed_;
  bool has_activations_ = false;
  std::deque<Tensor> tensors_;
  std::deque<std::vector<int32_t>> ints_;
  std::deque<std::vector<int64_t>> longs_;
};

struct OpCase {
  std::string name;
  std::function<void(OpFrame&)> body;
};

struct OpCaseList {
  std::vector<OpCase> cases;
  void add(std::string name, std::function<void(OpFrame&)> body) {
    cases.push_back({std::move(name), std::move(body)});
  }
};

using OpCaseFunction = void (*)(OpCaseList& list);
struct RegisteredOp {
  std::string op;
  OpCaseFunction cases;
};
std::vector<RegisteredOp>& registered_ops();
bool register_op(const char* op, OpCaseFunction cases);

#define GPT_OP_CASES(op)                                                                              \
  static void op##_cases(::gpt::testing::OpCaseList& list);                                           \
  [[maybe_unused]] static const bool op##_registered = ::gpt::testing::register_op(#op, &op##_cases); \
  static void op##_cases(::gpt::testing::OpCaseList& list)

}  // namespace gpt::testing
