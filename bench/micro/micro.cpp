// Time of single ops, on the cases of the op tests, for every instruction set that this machine has.
//   micro --benchmark_filter=linear_forward.*avx512

#include <benchmark/benchmark.h>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

// Calls ops as often as the benchmark asks for.
void run_case(benchmark::State& state, const OpCase& op_case, Isa isa, DType act) {
  const OpFrame::Repeat repeat = [&](const std::function<void()>& call) {
    for ([[maybe_unused]] auto _ : state)
      call();
  };
  OpFrame frame({.kernels = kernel_table(isa), .act = act, .guards = false, .repeat = repeat}, op_case.name);
  op_case.body(frame);
  // A case that finds nothing to do on this instruction set does not call its op.
  if (state.iterations() == 0) state.SkipWithError("nothing to do");
}

void register_all() {
  for (const RegisteredOp& op : registered_ops()) {
    OpCaseList list;
    op.cases(list);
    for (const OpCase& op_case : list.cases) {
      for (const Isa isa : kIsas) {
        if (isa > best_isa()) continue;
        for (const DType act : {DType::f32, DType::bf16}) {
          const std::string name = op.op + "/" + op_case.name + "/" + std::string(isa_name(isa)) + "/" +
                                   std::string(dtype_name(act));
          benchmark::RegisterBenchmark(name.c_str(), [op_case, isa, act](benchmark::State& state) {
            run_case(state, op_case, isa, act);
          });
        }
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
