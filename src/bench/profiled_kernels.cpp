#include "bench/profiled_kernels.h"

#include <algorithm>
#include <chrono>

namespace gpt {
namespace {

enum OpIndex : size_t {
#define GPT_OP_INDEX(name, Args) index_##name,
  GPT_FOR_EACH_OP(GPT_OP_INDEX)
#undef GPT_OP_INDEX
};

constexpr const char* kNames[] = {
#define GPT_OP_NAME(name, Args) #name,
    GPT_FOR_EACH_OP(GPT_OP_NAME)
#undef GPT_OP_NAME
};

template <size_t index, auto op, class Args>
void timed(const ExecContext& ctx, const Args& a) noexcept {
  using Clock = std::chrono::steady_clock;
  const auto& profiled = static_cast<const ProfiledKernels&>(ctx.kernels);
  // An op made of other ops calls them in the inner table: no time counts twice.
  const ExecContext inner{ctx.pool, profiled.inner, ctx.scratch};
  const auto start = Clock::now();
  (profiled.inner.*op)(inner, a);
  const auto elapsed = Clock::now() - start;
  ProfiledKernels::Counter& counter = profiled.counters[index];
  ++counter.calls;
  counter.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
}

}  // namespace

ProfiledKernels::ProfiledKernels(const KernelTable& inner_table) : inner(inner_table) {
  isa = inner.isa;
#define GPT_TIMED_ENTRY(name, Args) name = &timed<index_##name, &KernelTable::name, Args>;
  GPT_FOR_EACH_OP(GPT_TIMED_ENTRY)
#undef GPT_TIMED_ENTRY
}

std::vector<OpTime> ProfiledKernels::times() const {
  std::vector<OpTime> out;
  for (size_t i = 0; i < counters.size(); ++i) {
    if (counters[i].calls == 0) continue;
    out.push_back({kNames[i], counters[i].calls, 1e-9 * static_cast<double>(counters[i].nanoseconds)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return out;
}

void ProfiledKernels::clear() {
  counters = {};
}

}  // namespace gpt
