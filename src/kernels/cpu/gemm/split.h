#pragma once

#include <algorithm>

#include "kernels/cpu/gemm/gemm.h"

// Products with a small C and a long k (weight gradients of narrow layers): k is cut into pieces, so that
// several threads can work, and the partial products are added in order.

namespace gpt::gemm {

inline constexpr int64_t kSplitDepth = 1024;  // of k per piece, at least
inline constexpr int64_t kMaxSplits = 32;
inline constexpr int64_t kMaxSplitRows = 192;
inline constexpr int64_t kMaxSplitOutputs = 64 * 96;

inline int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline int64_t round_up(int64_t a, int64_t b) {
  return ceil_div(a, b) * b;
}

inline bool splits_k(int64_t m, int64_t n, int64_t k) {
  return m <= kMaxSplitRows && m * n <= kMaxSplitOutputs && k >= 2 * kSplitDepth;
}

inline int64_t split_depth(int64_t k) {
  return std::max(kSplitDepth, ceil_div(k, kMaxSplits));
}

// Bytes; a bound that grows with each size.
inline int64_t split_scratch(int64_t m, int64_t n, int64_t k) {
  if (k < 2 * kSplitDepth) return 0;
  const int64_t parts = std::min(ceil_div(k, kSplitDepth), kMaxSplits);
  return parts * std::min(m * n, kMaxSplitOutputs) * static_cast<int64_t>(sizeof(float));
}

// Adds up partial products [n_parts,m,n] into C.
void sum_parts(const ExecContext& ctx, const Product& p, const float* parts, int64_t n_parts);

// Calls multiply(part, thread) for every piece of k, then adds the pieces up; uses shared scratch.
template <class Multiply>
void split_k(const ExecContext& ctx, const Product& p, Multiply&& multiply) {
  auto* parts = ctx.scratch.all<float>();
  const int64_t depth = split_depth(p.k);
  const int64_t n_parts = ceil_div(p.k, depth);
  ctx.pool.parallel_for(n_parts, [&](int64_t task, int thread) {
    const int64_t l = task * depth;
    const Product part{.m = p.m,
                       .n = p.n,
                       .k = std::min(depth, p.k - l),
                       .a = p.a.at(0, l),
                       .b = p.b.at(l, 0),
                       .c = parts + task * p.m * p.n,
                       .ldc = p.n};
    multiply(part, thread);
  });
  sum_parts(ctx, p, parts, n_parts);
}

}  // namespace gpt::gemm
