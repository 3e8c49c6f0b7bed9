#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "op/op_case.h"

namespace gpt::testing {
namespace {

struct Lengths {
  int64_t q, kv;
};

struct Case {
  int64_t n_head, n_kv_head, head_dim;
  std::vector<Lengths> lengths;
  int64_t window = 0;
  int64_t block_size = 0;  // 0: contiguous
  double dropout = 0;
  bool weights = false;

  std::string name() const {
    std::string s = fmt::format("H{} Hkv{} D{}", n_head, n_kv_head, head_dim);
    for (const Lengths& l : lengths)
      s += fmt::format(" {}/{}", l.q, l.kv);
    if (window > 0) s += fmt::format(" window {}", window);
    if (block_size > 0) s += fmt::format(" blocks of {}", block_size);
    if (dropout > 0) s += fmt::format(" dropout {}", dropout);
    if (weights) s += " with weights";
    return s;
  }
  int64_t max_q() const {
    int64_t n = 0;
    for (const Lengths& l : lengths)
      n = std::max(n, l.q);
    return n;
  }
  int64_t max_kv() const {
    int64_t n = 0;
    for (const Lengths& l : lengths)
      n = std::max(n, l.kv);
    return n;
  }
  int64_t queries() const {
    int64_t n = 0;
    for (const Lengths& l : lengths)
      n += l.q;
    return n;
  }
  AttentionShape shape() const {
    return {.n_head = n_head,
            .n_kv_head = n_kv_head,
            .head_dim = head_dim,
            .scale = 1 / std::sqrt(static_cast<double>(head_dim)),
            .block_size = block_size,
            .window = window,
            .dropout = {.p = dropout, .key = 0x0123456789abcdefull, .first_row = 5},
            .dropout_stride = max_kv()};
  }
  // Rounding errors add up like a random walk, over the width in the scores and over the keys or queries
  // in the sums; values are of size 1 and rarely above 4.
  Tolerance tolerance() const {
    const double steps =
        8 + std::sqrt(static_cast<double>(head_dim)) + std::sqrt(static_cast<double>(max_kv()));
    return {.absolute = 4 * 4 * kEpsilon * steps / (1 - dropout), .relative = 16 * kEpsilon};
  }
};

// Where the keys of every sequence are, and how many rows the cache has. Rows that no sequence owns, and
// the blocks that a window has left behind, hold NaN.
struct Cache {
  std::vector<AttentionSeq> seqs;
  std::vector<bool> used;
};

Cache make_cache(OpFrame& f, const Case& c) {
  Cache cache;
  const int64_t block = c.block_size > 0 ? c.block_size : 1;
  int64_t q_row = 0;
  int64_t next = 3;  // in blocks; the first ones belong to nobody
  for (const Lengths& l : c.lengths) {
    AttentionSeq seq{.q_start = q_row, .q_len = l.q, .kv_len = l.kv, .kv_start = next};
    const int64_t blocks = (l.kv + block - 1) / block;
    if (c.block_size > 0) {
      int32_t* table = f.ints(blocks, 0, 0);
      for (int64_t b = 0; b < blocks; ++b)
        table[b] = static_cast<int32_t>(next + blocks - 1 - b);
      seq.blocks = table;
    }
    q_row += l.q;
    next += blocks + 1;
    cache.used.resize(static_cast<size_t>(next * block));
    const int64_t oldest = c.window > 0 ? std::max<int64_t>(0, l.kv - l.q + 1 - c.window) : 0;
    for (int64_t t = oldest; t < l.kv; ++t) {
      const int64_t row =
          seq.blocks == nullptr ? seq.kv_start + t : seq.blocks[t / block] * block + t % block;
      cache.used[static_cast<size_t>(row)] = true;
    }
    cache.seqs.push_back(seq);
  }
  return cache;
}

Fill values_where(const std::vector<bool>& used, int64_t cols) {
  return [&used, cols](int64_t i, RandomStream& random) {
    const double value = random.normal();
    return used[static_cast<size_t>(i / cols)] ? value : std::numeric_limits<double>::quiet_NaN();
  };
}

// Inference: queries at the end of a cache.
void forward_case(OpCaseList& list, const Case& c) {
  list.add(c.name(), [c](OpFrame& f) {
    const Cache cache = make_cache(f, c);
    const auto rows = static_cast<int64_t>(cache.used.size());
    const int64_t kv_cols = c.n_kv_head * c.head_dim;
    const int64_t n = c.queries();
    AttentionArgs args{.shape = c.shape(),
                       .seqs = cache.seqs,
                       .out = f.output({n, c.n_head * c.head_dim}, c.tolerance(), 3),
                       .q = f.input({n, c.n_head * c.head_dim}, normal_values(), 5),
                       .k = f.input({rows, kv_cols}, values_where(cache.used, kv_cols), 2),
                       .v = f.input({rows, kv_cols}, values_where(cache.used, kv_cols), 1),
                       .lse = f.output({n, c.n_head}, c.tolerance())};
    if (c.weights) {
      const auto n_seq = static_cast<int64_t>(c.lengths.size());
      args.weights = f.output({n_seq, c.n_head, c.max_q(), c.max_kv()}, c.tolerance());
    }
    f.run(&KernelTable::attention_forward, args,
          attention_scratch(args.shape, c.max_q(), c.max_kv(), false, f.dtype()));
  });
}

GPT_OP_CASES(attention_forward) {
  for (int64_t d : {1, 8, 12, 16, 24, 48, 64, 80, 128, 200}) {
    forward_case(list, {2, 1, d, {{67, 67}, {1, 130}}});
  }
  for (int64_t kv_heads : {1, 2, 3, 6}) {
    forward_case(list, {6, kv_heads, 20, {{1, 1}, {2, 65}, {5, 64}, {3, 140}, {66, 131}}});
    forward_case(list, {6, kv_heads, 20, {{7, 150}, {1, 33}, {65, 65}}, 0, 16});
  }
  forward_case(list, {150, 1, 3, {{2, 66}}});  // more heads in a group than rows in a task
  for (int64_t window : {1, 5, 64, 100}) {
    forward_case(list, {4, 2, 24, {{1, 200}, {9, 190}, {70, 70}}, window});
    forward_case(list, {4, 2, 24, {{1, 200}, {9, 190}, {70, 70}}, window, 3});
  }
  forward_case(list, {4, 2, 16, {{70, 70}, {9, 75}}, 0, 0, 0.3});
  forward_case(list, {4, 2, 16, {{70, 70}, {9, 75}}, 20, 16, 0.3});
  forward_case(list, {4, 2, 16, {{70, 70}, {9, 75}}, 20, 16, 0, true});
  forward_case(list, {3, 3, 16, {{70, 70}, {9, 75}}, 0, 0, 0.5, true});
  forward_case(list, {2, 1, 16, {}});
}

// Training: q, k and v side by side in one buffer, and their gradients in another.
void backward_case(OpCaseList& list, const Case& c) {
  list.add(c.name(), [c](OpFrame& f) {
    const int64_t n = c.queries();
    const int64_t q_cols = c.n_head * c.head_dim;
    const int64_t kv_cols = c.n_kv_head * c.head_dim;
    std::vector<AttentionSeq> seqs;
    for (int64_t row = 0; const Lengths& l : c.lengths) {
      seqs.push_back({.q_start = row, .q_len = l.q, .kv_len = l.kv, .kv_start = row});
      row += l.q;
    }
    const TensorView qkv = f.input({n, q_cols + 2 * kv_cols}, normal_values(), 1);
    Tolerance sums = c.tolerance();  // gradients of keys and values are sums over a group's queries
    sums.absolute *= 4 * static_cast<double>(c.n_head) / static_cast<double>(c.n_kv_head);
    const TensorView dqkv = f.output({n, q_cols + 2 * kv_cols}, sums, 2);
    const TensorView out = f.output({n, q_cols}, c.tolerance());
    const TensorView lse = f.output({n, c.n_head}, c.tolerance());
    const AttentionArgs forward{.shape = c.shape(),
                                .seqs = seqs,
                                .out = out,
                                .q = qkv.columns(0, q_cols),
                                .k = qkv.columns(q_cols, kv_cols),
                                .v = qkv.columns(q_cols + kv_cols, kv_cols),
                                .lse = lse};
    f.run(&KernelTable::attention_forward, forward,
          attention_scratch(forward.shape, c.max_q(), c.max_kv(), false, f.dtype()));
    f.run(&KernelTable::attention_backward,
          {.shape = forward.shape,
           .seqs = seqs,
           .dq = dqkv.columns(0, q_cols),
           .dk = dqkv.columns(q_cols, kv_cols),
           .dv = dqkv.columns(q_cols + kv_cols, kv_cols),
           .dout = f.input({n, q_cols}, normal_values(), 3),
           .out = out,
           .q = forward.q,
           .k = forward.k,
           .v = forward.v,
           .lse = lse},
          attention_scratch(forward.shape, c.max_q(), c.max_kv(), true, f.dtype()));
  });
}

GPT_OP_CASES(attention_backward) {
  for (int64_t d : {1, 8, 12, 16, 24, 48, 64, 80, 128})
    backward_case(list, {2, 2, d, {{67, 67}}});
  for (int64_t kv_heads : {1, 2, 4}) {
    backward_case(list, {4, kv_heads, 20, {{1, 1}, {64, 64}, {3, 3}, {129, 129}}});
  }
  for (int64_t window : {1, 5, 64, 100})
    backward_case(list, {4, 2, 24, {{140, 140}, {7, 7}}, window});
  backward_case(list, {4, 2, 16, {{70, 70}, {9, 9}}, 0, 0, 0.3});
  backward_case(list, {4, 2, 16, {{150, 150}}, 30, 0, 0.3});
  backward_case(list, {2, 1, 16, {}});
}

}  // namespace
}  // namespace gpt::testing
