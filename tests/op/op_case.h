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

// Tests of single ops. Each op has one declaration: a function that adds cases. Every case runs on every
// instruction set and is compared with the scalar reference in double. Tests check that results are within
// the tolerance, that inputs and the memory around each tensor are unchanged, that unaligned memory works,
// and that results are bit-identical for 1, 2, 3 and 7 threads.
//
//   GPT_OP_CASES(add) {
//     for (int64_t n : {0, 1, 17})
//       list.add(fmt::format("{}", n), [=](OpFrame& f) {
//         const TensorView a = f.input({3, n}, normal_values()), b = f.input({3, n}, normal_values());
//         f.run(&KernelTable::add, {.out = f.output({3, n}, relative(1)), .a = a, .b = b});
//       });
//   }

namespace gpt::testing {

// Fills a tensor: value(i, stream) returns element i. Values are rounded to float, so that the run in double
// starts from the same values.
using Fill = std::function<double(int64_t, RandomStream&)>;
Fill normal_values(double std = 1, double mean = 0);
Fill uniform_values(double low, double high);
Fill constant_values(double value);
// Inserts NaN and both infinities into the values of `fill`. A kernel must propagate them like the reference.
Fill with_specials(Fill fill);

// Two values match if |got - want| <= absolute + relative |want|. NaN and infinities must match exactly.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};
inline constexpr double kEpsilon = 0x1p-24;  // half a unit in the last place of 1.0f: one rounding
// Returns the tolerance for n roundings of the result.
Tolerance relative(double n);
// Returns the tolerance for a float sum of `terms` products of about `size`. Roundings add up like a random
// walk: sqrt(terms) roundings of partial sums of up to sqrt(terms) * size. The product of these numbers is
// terms * size * epsilon, and the factor 4 covers the maximum over many outputs.
Tolerance sum_of(int64_t terms, double size = 1);

using test::array_of;
using test::CaseArray;

// The memory for one run of one case. A case creates its tensors, always in the same order, and calls run().
// The frame executes the case in float or in double. Each tensor of a case is filled from a separate random
// stream.
class OpFrame {
 public:
  struct Setup {
    const KernelTable& kernels;
    DType dtype = DType::f32;
    DType act = DType::f32;  // storage dtype of activations; a run in double rounds them to it
    int threads = 1;
    int64_t misalign = 0;  // elements between an aligned address and the first element
    bool guards = true;    // without guards, AddressSanitizer detects heap overruns
    int calls = 1;         // number of consecutive calls of the op; bench/micro uses more
  };
  OpFrame(const Setup& setup, const std::string& seed);

  // Create tensors with ld = cols + ld_extra. Inputs must remain unchanged; outputs start as NaN.
  TensorView input(std::initializer_list<int64_t> shape, const Fill& fill, int64_t ld_extra = 0);
  TensorView output(std::initializer_list<int64_t> shape, Tolerance tolerance, int64_t ld_extra = 0);
  TensorView inout(std::initializer_list<int64_t> shape, const Fill& fill, Tolerance tolerance,
                   int64_t ld_extra = 0);
  // Create activation tensors in the same way. A tolerance does not include the rounding to the storage
  // dtype.
  TensorView act_input(std::initializer_list<int64_t> shape, const Fill& fill, int64_t ld_extra = 0);
  TensorView act_output(std::initializer_list<int64_t> shape, Tolerance tolerance, int64_t ld_extra = 0);
  TensorView act_inout(std::initializer_list<int64_t> shape, const Fill& fill, Tolerance tolerance,
                       int64_t ld_extra = 0);
  // Create outputs with a fixed dtype, independent of the dtype of the run.
  TensorView output_of(DType dtype, std::initializer_list<int64_t> shape, Tolerance tolerance,
                       int64_t ld_extra = 0);
  CaseArray<double> output_doubles(int64_t n, Tolerance tolerance);
  // Creates random integers in [low, high], which the caller may overwrite.
  CaseArray<int32_t> ints(int64_t n, int64_t low, int64_t high);
  CaseArray<int64_t> longs(std::vector<int64_t> values);

  const KernelTable& kernels() const { return setup_.kernels; }
  DType dtype() const { return setup_.dtype; }
  DType act() const { return setup_.dtype == DType::f64 ? DType::f64 : setup_.act; }
  bool has_activations() const { return has_activations_; }  // true if the case has created any so far

  // Calls the op. The scratch memory of the op starts out as NaN.
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

  // Returns a description of the first change to memory that must not change, or an empty string.
  std::string damage() const;
  // Compares the outputs with those of `want`. Returns a description of the first output that is out of
  // tolerance, or an empty string.
  std::string difference(const OpFrame& want) const;
  // Compares the outputs with those of `other` bit by bit. Returns a description of the first difference, or
  // an empty string.
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
