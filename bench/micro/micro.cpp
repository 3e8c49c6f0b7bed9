// Measures single ops on the cases of the op tests, with one thread. Each case runs for every instruction set
// that this machine supports, and for activations in fp32 and in bf16.
//   micro --benchmark_filter='linear_forward/.*/avx512/'

#include <benchmark/benchmark.h>

#include "kernels/profiled_kernels.h"
#include "op/op_case.h"

namespace gpt::testing {
namespace {

constexpr int kPlays = 5;   // runs of a case, each with new memory
constexpr int kCalls = 20;  // calls per run, on the same memory

// Runs the case with a kernel table that times each op. The reported time includes only the op itself. It
// does not include creating the arguments or running other ops that the case may call.
void run_case(benchmark::State& state, const std::string& op, const OpCase& op_case, Isa isa, DType act) {
  ProfiledKernels kernels(kernel_table(isa));
  for ([[maybe_unused]] auto _ : state) {
    kernels.clear();
    OpFrame frame({.kernels = kernels, .act = act, .guards = false, .calls = kCalls}, op_case.name);
    op_case.body(frame);
    if (act != DType::f32 && !frame.has_activations()) return state.SkipWithError("has no activations");
    double seconds = 0;
    for (const OpTime& time : kernels.times()) {
      if (time.op == op) seconds = time.seconds / static_cast<double>(time.calls);
    }
    if (seconds == 0) return state.SkipWithError("has nothing to do");
    state.SetIterationTime(seconds);
  }
}

void register_case(const std::string& op, const OpCase& op_case, Isa isa, DType act) {
  const std::string name =
      op + "/" + op_case.name + "/" + std::string(isa_name(isa)) + "/" + std::string(dtype_name(act));
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) { run_case(state, op, op_case, isa, act); })
      ->UseManualTime()
      ->Iterations(kPlays)
      ->Unit(benchmark::kMicrosecond);
}

void register_all() {
  for (const RegisteredOp& op : registered_ops()) {
    OpCaseList list;
    op.cases(list);
    for (const OpCase& op_case : list.cases) {
      for (const Isa isa : kIsas) {
        if (isa > best_isa()) continue;
        register_case(op.op, op_case, isa, DType::f32);
        register_case(op.op, op_case, isa, DType::bf16);
      }
    }
  }
}

}  // namespace
}  // namespace gpt::testing

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  gpt::testing::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
