#include "kernels/profiled_kernels.h"

#include <algorithm>
#include <chrono>
#include "base/clock.h"
#include "kernels/unwrap.h"

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

template <class Args>
double flops_of(const Args&) {
  return 0;
}
double flops_of(const LinearArgs& a) {
  return 2.0 * static_cast<double>(a.y.rows() * a.y.cols() * a.x.cols());
}
double flops_of(const LinearBackwardInputArgs& a) {
  return 2.0 * static_cast<double>(a.dy.rows() * a.dy.cols() * a.dx.cols());
}
double flops_of(const LinearBackwardWeightArgs& a) {
  return 2.0 * static_cast<double>(a.dy.rows() * a.dy.cols() * a.x.cols());
}

// Returns the FLOPs of attention. Each query head computes `products` dot products of width D with every key
// that it attends to.
double attention_flops(const AttentionShape& shape, std::span<const AttentionSeq> seqs, int64_t products) {
  int64_t pairs = 0;
  for (const AttentionSeq& s : seqs) {
    for (int64_t i = 0; i < s.q_len; ++i) {
      const int64_t seen = s.kv_len - s.q_len + i + 1;
      pairs += shape.window > 0 ? std::min(seen, shape.window) : seen;
    }
  }
  return 2.0 * static_cast<double>(products * pairs * shape.n_head * shape.head_dim);
}
// The forward pass computes two products, q k and p v. The backward pass computes five: s, dp, dq, dk and dv.
double flops_of(const AttentionArgs& a) {
  return attention_flops(a.shape, unwrap_span(a.seqs), 2);
}
double flops_of(const AttentionBackwardArgs& a) {
  return attention_flops(a.shape, unwrap_span(a.seqs), 5);
}

template <size_t index, auto op, class Args>
void timed(const ExecContext& ctx, const Args& a) noexcept {
  const auto& profiled = static_cast<const ProfiledKernels&>(ctx.kernels);
  // Ops that call other ops use the inner table, so no time is counted twice.
  const ExecContext inner{ctx.device, ctx.pool, profiled.inner, ctx.scratch};
  const auto start = Clock::now();
  (profiled.inner.*op)(inner, a);
  const auto elapsed = Clock::now() - start;
  ProfiledKernels::Counter& counter = profiled.counters[index];
  ++counter.calls;
  counter.nanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count();
  counter.flops += flops_of(a);
}

}  // namespace

ProfiledKernels::ProfiledKernels(const KernelTable& inner_table)
    : KernelTable(inner_table), inner(inner_table) {
#define GPT_TIMED_ENTRY(name, Args) name = &timed<index_##name, &KernelTable::name, Args>;
  GPT_FOR_EACH_OP(GPT_TIMED_ENTRY)
#undef GPT_TIMED_ENTRY
}

std::vector<OpTime> ProfiledKernels::times() const {
  std::vector<OpTime> out;
  for (size_t i = 0; i < counters.size(); ++i) {
    if (counters[i].calls == 0) continue;
    out.push_back({kNames[i], counters[i].calls, 1e-9 * static_cast<double>(counters[i].nanoseconds),
                   counters[i].flops});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return out;
}

void ProfiledKernels::clear() {
  counters = {};
}

}  // namespace gpt
