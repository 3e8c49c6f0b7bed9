#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/quant.h"
#include "op/op_case.h"
#include "support/random.h"
#include "tensor/half.h"

namespace gpt::testing {
namespace {

struct Lengths {
  int64_t q, kv;
};

constexpr StepState kStep{.step = 7, .seed = 0x0123456789abcdefull};

struct Case {
  int64_t n_head, n_kv_head, head_dim;
  std::vector<Lengths> lengths;
  int64_t window = 0;
  int64_t page_size = 0;  // 0: contiguous cache
  double dropout = 0;
  bool weights = false;
  std::optional<DType> cache = {};  // dtype of the KV cache, by default that of the activations

  std::string name() const {
    std::string s = fmt::format("H{} Hkv{} D{}", n_head, n_kv_head, head_dim);
    for (const Lengths& l : lengths)
      s += fmt::format(" {}/{}", l.q, l.kv);
    if (window > 0) s += fmt::format(" window {}", window);
    if (page_size > 0) s += fmt::format(" pages of {}", page_size);
    if (dropout > 0) s += fmt::format(" dropout {}", dropout);
    if (weights) s += " with weights";
    if (cache) s += fmt::format(" cache in {}", dtype_name(*cache));
    return s;
  }
  int64_t longest(int64_t Lengths::*which) const {
    int64_t n = 0;
    for (const Lengths& l : lengths)
      n = std::max(n, l.*which);
    return n;
  }
  int64_t max_q() const { return longest(&Lengths::q); }
  int64_t max_kv() const { return longest(&Lengths::kv); }
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
            .page_size = page_size,
            .window = window,
            .dropout = {.p = dropout,
                        .site = RandomSite::dropout_attention,
                        .layer = 3,
                        .first_row = 5,
                        .step = array_of(kStep)},
            .dropout_stride = max_kv(),
            .max_q = max_q(),
            .max_kv = max_kv()};
  }
  // Rounding errors grow like a random walk, with the head width for the scores and with the number of keys
  // or queries for the sums. Values are of order one and rarely above 4.
  Tolerance tolerance() const {
    const double steps =
        8 + std::sqrt(static_cast<double>(head_dim)) + std::sqrt(static_cast<double>(max_kv()));
    return {.absolute = 4 * 4 * kEpsilon * steps / (1 - dropout), .relative = 16 * kEpsilon};
  }
  // Attention weights may be rounded to the dtype of the activations. The weighted mean of values of up to 4
  // is then off by at most 4 roundings.
  Tolerance out_tolerance(DType act) const {
    Tolerance t = tolerance();
    t.absolute += 4 * rounding(act) / (1 - dropout);
    return t;
  }
  static double rounding(DType act) { return act == DType::bf16 ? 0x1p-9 : act == DType::f16 ? 0x1p-12 : 0; }
};

// The position of the keys of each sequence in the cache, and the number of cache rows. Rows that belong to
// no sequence and pages before a sliding window contain NaN.
struct Cache {
  std::vector<AttentionSeq> seqs;
  std::vector<int32_t> pages;
  std::vector<bool> used;
};

Cache make_cache(const Case& c) {
  Cache cache;
  const int64_t page = c.page_size > 0 ? c.page_size : 1;
  int64_t q_row = 0;
  int64_t next = 3;  // page number; the first pages belong to no sequence
  for (const Lengths& l : c.lengths) {
    const AttentionSeq seq{.q_start = q_row,
                           .q_len = l.q,
                           .kv_len = l.kv,
                           .kv_start = next,
                           .first_page = std::ssize(cache.pages)};
    const int64_t pages = (l.kv + page - 1) / page;
    for (int64_t p = 0; c.page_size > 0 && p < pages; ++p)
      cache.pages.push_back(static_cast<int32_t>(next + pages - 1 - p));
    q_row += l.q;
    next += pages + 1;
    cache.used.resize(static_cast<size_t>(next * page));
    const int64_t oldest = c.window > 0 ? std::max<int64_t>(0, l.kv - l.q + 1 - c.window) : 0;
    for (int64_t t = oldest; t < l.kv; ++t) {
      const int64_t row = c.page_size == 0
                              ? seq.kv_start + t
                              : cache.pages[static_cast<size_t>(seq.first_page + t / page)] * page + t % page;
      cache.used[static_cast<size_t>(row)] = true;
    }
    cache.seqs.push_back(seq);
  }
  return cache;
}

Fill values_where(const std::vector<bool>& used, int64_t cols) {
  return [&used, cols](int64_t i, RandomStream& random) {
    const double value = test::bell(random);
    return used[static_cast<size_t>(i / cols)] ? value : std::numeric_limits<double>::quiet_NaN();
  };
}

// Keys or values in a dtype that differs from the activations of the frame, with the scales of int8 rows.
struct StoredRows {
  std::vector<std::byte> bytes;
  std::vector<float> scales;
  TensorView view, scale;

  StoredRows(DType dtype, int64_t rows, int64_t heads, int64_t width, uint64_t seed, const Fill& fill)
      : bytes(static_cast<size_t>(rows * row_bytes(dtype, heads * width))),
        scales(static_cast<size_t>(rows * heads)),
        view(make_view(bytes.data(), dtype, {rows, heads * width})) {
    RandomStream random(seed, RandomSite::test);
    if (dtype == DType::q4_0) {
      put_blocks(rows * heads * width, fill, random);
      return;
    }
    for (int64_t i = 0; i < rows * heads * width; ++i)
      put(i, fill(i, random));
    if (dtype != DType::i8) return;
    scale = make_view(scales.data(), {rows, heads});
    for (int64_t i = 0; i < rows * heads; ++i) {
      const bool used = !std::isnan(fill(i * width, random));
      scales[static_cast<size_t>(i)] =
          used ? static_cast<float>(0.02 + 0.02 * random.uniform()) : std::numeric_limits<float>::quiet_NaN();
    }
  }

  void put_blocks(int64_t n, const Fill& fill, RandomStream& random) {
    for (int64_t i = 0; i < n; i += kQuantBlock) {
      float x[kQuantBlock];
      for (int64_t j = 0; j < kQuantBlock; ++j)
        x[j] = static_cast<float>(fill(i + j, random));
      quantize_block(x, reinterpret_cast<BlockQ4*>(bytes.data())[i / kQuantBlock]);
    }
  }

  void put(int64_t i, double value) {
    if (view.dtype == DType::f32) view.as<float>()[i] = static_cast<float>(value);
    if (view.dtype == DType::bf16) view.as<bf16>()[i] = to_bf16(static_cast<float>(value));
    if (view.dtype == DType::f16) view.as<f16>()[i] = to_f16(static_cast<float>(value));
    if (view.dtype != DType::i8 || std::isnan(value)) return;
    view.as<int8_t>()[i] = static_cast<int8_t>(std::clamp(std::lround(32 * value), -127l, 127l));
  }
};

// Adds an inference case: the queries are the last tokens of the cache.
void forward_case(OpCaseList& list, const Case& c) {
  list.add(c.name(), [c](OpFrame& f) {
    const Cache cache = make_cache(c);
    const auto rows = static_cast<int64_t>(cache.used.size());
    const int64_t kv_cols = c.n_kv_head * c.head_dim;
    const int64_t n = c.queries();
    const Fill fill = values_where(cache.used, kv_cols);
    AttentionArgs args{.shape = c.shape(),
                       .seqs = array_of(cache.seqs),
                       .pages = c.page_size > 0 ? array_of(cache.pages) : DeviceSpan<const int32_t>(),
                       .out = f.act_output({n, c.n_head * c.head_dim}, c.out_tolerance(f.act()), 3),
                       .q = f.act_input({n, c.n_head * c.head_dim}, normal_values(), 5),
                       .lse = f.output({n, c.n_head}, c.tolerance())};
    std::optional<StoredRows> keys, values;
    if (c.cache) {
      keys.emplace(*c.cache, rows, c.n_kv_head, c.head_dim, 1, fill);
      values.emplace(*c.cache, rows, c.n_kv_head, c.head_dim, 2, fill);
      args.k = keys->view;
      args.v = values->view;
      args.k_scale = keys->scale;
      args.v_scale = values->scale;
    } else {
      args.k = f.act_input({rows, kv_cols}, fill, 2);
      args.v = f.act_input({rows, kv_cols}, fill, 1);
    }
    if (c.weights) {
      const auto n_seq = static_cast<int64_t>(c.lengths.size());
      args.weights = f.output({n_seq, c.n_head, c.max_q(), c.max_kv()}, c.tolerance());
    }
    f.run(&KernelTable::attention_forward, args,
          f.kernels().attention_scratch(args.shape, c.max_q(), c.max_kv(), false, f.dtype()));
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
  // There are more keys than a segment has.
  for (int64_t window : {0, 3000}) {
    forward_case(list, {4, 2, 16, {{1, 4100}}, window});
    forward_case(list, {4, 2, 16, {{1, 2049}, {1, 2048}, {1, 4100}}, window, 16});
    forward_case(list, {4, 2, 16, {{3, 4100}, {1, 7}}, window});
  }
  // These shapes fill whole tile registers.
  forward_case(list, {6, 3, 32, {{1, 1}, {2, 65}, {33, 64}, {140, 140}, {66, 131}}});
  forward_case(list, {4, 2, 64, {{100, 200}, {9, 190}, {70, 70}}, 40, 16, 0.3});
  for (int64_t d : {32, 64, 96, 128, 160}) {
    for (int64_t kv_heads : {1, 2, 6}) {
      Case c{6, kv_heads, d, {{67, 67}, {1, 1}, {1, 130}, {2, 64}, {5, 70}}, kv_heads == 2 ? 40 : 0, 16};
      c.cache = DType::q4_0;
      forward_case(list, c);
    }
  }
  for (DType cache : {DType::f32, DType::bf16, DType::f16, DType::i8}) {
    const auto cached = [&](Case c) {
      c.cache = cache;
      forward_case(list, c);
    };
    for (int64_t d : {1, 12, 64, 136})
      cached({2, 1, d, {{67, 67}, {1, 130}, {2, 64}}});
    for (int64_t kv_heads : {1, 6})
      cached({6, kv_heads, 40, {{1, 1}, {1, 65}, {5, 70}, {1, 140}}, 0, 16});
    cached({4, 2, 24, {{1, 200}, {9, 90}}, 64, 16});
    for (int64_t heads : {5, 12, 13})  // all heads in one group
      cached({heads, 1, 40, {{1, 66}, {2, 31}}});
    cached({4, 2, 16, {{70, 70}, {9, 75}}, 20, 16, 0.3, true});
  }
}

// Adds a training case: q, k and v are adjacent in one buffer, and their gradients in another.
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
    const TensorView qkv = f.act_input({n, q_cols + 2 * kv_cols}, normal_values(), 1);
    Tolerance sums = c.tolerance();  // gradients of keys and values are summed over the queries of a group
    // Covers the rounding of out, of the weights and of their gradients.
    sums.absolute += 16 * Case::rounding(f.act()) / (1 - c.dropout);
    sums.absolute *= 4 * static_cast<double>(c.n_head) / static_cast<double>(c.n_kv_head);
    const TensorView dqkv = f.act_output({n, q_cols + 2 * kv_cols}, sums, 2);
    const TensorView out = f.act_output({n, q_cols}, c.out_tolerance(f.act()));
    const TensorView lse = f.output({n, c.n_head}, c.tolerance());
    const AttentionArgs forward{.shape = c.shape(),
                                .seqs = array_of(seqs),
                                .out = out,
                                .q = qkv.slice_cols(0, q_cols),
                                .k = qkv.slice_cols(q_cols, kv_cols),
                                .v = qkv.slice_cols(q_cols + kv_cols, kv_cols),
                                .lse = lse};
    f.run(&KernelTable::attention_forward, forward,
          f.kernels().attention_scratch(forward.shape, c.max_q(), c.max_kv(), false, f.dtype()));
    f.run(&KernelTable::attention_backward,
          {.shape = forward.shape,
           .seqs = array_of(seqs),
           .dq = dqkv.slice_cols(0, q_cols),
           .dk = dqkv.slice_cols(q_cols, kv_cols),
           .dv = dqkv.slice_cols(q_cols + kv_cols, kv_cols),
           .dout = f.act_input({n, q_cols}, normal_values(), 3),
           .out = out,
           .q = forward.q,
           .k = forward.k,
           .v = forward.v,
           .lse = lse},
          f.kernels().attention_scratch(forward.shape, c.max_q(), c.max_kv(), true, f.dtype()));
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
  for (const auto& [heads, kv_heads] : {std::pair<int64_t, int64_t>{2, 2}, {4, 2}, {3, 1}}) {
    for (int64_t window : {0, 3}) {
      for (double dropout : {0.0, 0.25})
        backward_case(list, {heads, kv_heads, 4, {{4, 4}, {7, 7}}, window, 0, dropout});
    }
  }
  // These shapes fill whole tile registers.
  backward_case(list, {6, 3, 32, {{1, 1}, {64, 64}, {33, 33}, {17, 17}, {146, 146}}});
  backward_case(list, {4, 2, 64, {{150, 150}, {40, 40}}, 40, 0, 0.3});
}

}  // namespace
}  // namespace gpt::testing
