#pragma once

// Shared code of the gradient tests of ops: tensors in double and a kernel table that counts its calls.

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "support/arrays.h"

namespace gpt::test {

// Returns the number of calls of each op since the start of the process.
inline std::map<std::string, int>& op_calls() {
  static std::map<std::string, int> calls;
  return calls;
}

inline const KernelTable& plain_table() {
  static const KernelTable table = ref::table();
  return table;
}

#define GPT_TEST_COUNTED(name, Args)                                           \
  inline void counted_##name(const ExecContext& ctx, const Args& a) noexcept { \
    ++op_calls()[#name];                                                       \
    plain_table().name(ctx, a);                                                \
  }
GPT_FOR_EACH_OP(GPT_TEST_COUNTED)
#undef GPT_TEST_COUNTED

// Returns the reference ops with call counting.
inline const KernelTable& counted_table() {
  static const KernelTable table = [] {
    KernelTable t = plain_table();
#define GPT_TEST_ENTRY(name, Args) t.name = counted_##name;
    GPT_FOR_EACH_OP(GPT_TEST_ENTRY)
#undef GPT_TEST_ENTRY
    return t;
  }();
  return table;
}

class OpBench {
 public:
  explicit OpBench(uint64_t seed = 1)
      : random_(seed, RandomSite::test),
        workspace_({.shared = 1 << 20, .per_thread = 1 << 16}, pool_.size()) {}

  ExecContext ctx() { return {host(), pool_, counted_table(), workspace_.scratch()}; }
  const KernelTable& ops() const { return counted_table(); }

  TensorView zeros(std::initializer_list<int64_t> shape) {
    int64_t n = 1;
    for (int64_t d : shape)
      n *= d;
    memory_.emplace_back(static_cast<size_t>(n));
    return make_view(memory_.back().data(), shape);
  }
  TensorView normal(std::initializer_list<int64_t> shape, double scale = 1) {
    const TensorView v = zeros(shape);
    for (int64_t i = 0; i < v.size(); ++i)
      v.as<double>()[i] = scale * random_.normal();
    return v;
  }
  TensorView copy(const TensorView& from) {
    memory_.emplace_back(static_cast<size_t>(from.size()));
    const TensorView to = make_view(memory_.back().data(), from.dtype, from.dims());
    assign(to, from);
    return to;
  }
  static void assign(const TensorView& to, const TensorView& from) {
    for (int64_t r = 0; r < from.rows(); ++r) {
      for (int64_t c = 0; c < from.cols(); ++c)
        to.row<double>(r)[c] = from.row<double>(r)[c];
    }
  }

 private:
  RandomStream random_;
  ThreadPool pool_{1};  // single-threaded: slow on busy machines otherwise, and threads have separate tests
  Workspace workspace_;
  std::deque<std::vector<double>> memory_;
};

// Returns the sum of the products of corresponding elements. The sum is a scalar loss of the tensor `a` whose
// gradient is `weights`.
inline double dot(const TensorView& a, const TensorView& weights) {
  double sum = 0;
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (int64_t c = 0; c < a.cols(); ++c)
      sum += a.row<double>(r)[c] * weights.row<double>(r)[c];
  }
  return sum;
}

inline std::vector<double> minus(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    a[i] -= b[i];
  return a;
}

}  // namespace gpt::test
