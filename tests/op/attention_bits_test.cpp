// Checks that attention is bit-identical during inference, whatever else is in the batch. The output of a row
// depends only on its query, its position, and the keys and values up to that position.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.h"
#include "kernels/kernel_table.h"
#include "kernels/quant.h"
#include "support/arrays.h"
#include "support/isas.h"
#include "support/random.h"
#include "tensor/half.h"

namespace gpt {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kLength = 203;
constexpr int64_t kHeads = 6;

std::vector<float> random_values(int64_t n, uint64_t seed) {
  RandomStream random(seed, RandomSite::test);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v)
    x = static_cast<float>(test::bell(random));
  return v;
}

TensorView rows_view(std::vector<float>& v, int64_t cols) {
  return make_view(v.data(), {static_cast<int64_t>(v.size()) / cols, cols});
}

struct Setting {
  Isa isa;
  int64_t n_kv_head;
  int64_t window;
  DType cache;  // dtype of the KV cache

  int64_t width() const { return cache == DType::q4_0 ? 2 * kQuantBlock : 40; }  // width of a head
};
std::ostream& operator<<(std::ostream& out, const Setting& s) {
  return out << isa_name(s.isa) << "_kv_heads_" << s.n_kv_head << "_window_" << s.window << "_"
             << dtype_name(s.cache);
}

// Keys or values converted to the dtype of the KV cache. int8 has one scale per row and head.
struct Stored {
  int64_t width;
  std::vector<std::byte> bytes;
  std::vector<float> scales;
  TensorView view, scale;

  Stored(const Setting& setting, const TensorView& from)
      : width(setting.width()), bytes(static_cast<size_t>(row_bytes(setting.cache, from.size()))) {
    const DType dtype = setting.cache;
    view = make_view(bytes.data(), dtype, from.dims());
    for (int64_t i = 0; i < from.size(); ++i) {
      const float x = from.as<float>()[i];
      if (dtype == DType::f32) view.as<float>()[i] = x;
      if (dtype == DType::bf16) view.as<bf16>()[i] = to_bf16(x);
      if (dtype == DType::f16) view.as<f16>()[i] = to_f16(x);
    }
    if (dtype == DType::i8) quantize(from);
    if (dtype == DType::q4_0) quantize_row(dtype, from.as<float>(), from.size(), bytes.data());
  }

  void quantize(const TensorView& from) {
    const int64_t rows = from.size() / width;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = from.as<float>() + r * width;
      float top = 0;
      for (int64_t d = 0; d < width; ++d)
        top = std::isnan(top) || std::abs(x[d]) <= top ? top : std::abs(x[d]);
      scales.push_back(top / 127);
      for (int64_t d = 0; d < width; ++d) {
        const float level = std::nearbyint(x[d] / scales.back());
        view.as<int8_t>()[r * width + d] = std::isfinite(level) ? static_cast<int8_t>(level) : int8_t{1};
      }
    }
    scale = make_view(scales.data(), {from.rows(), from.cols() / width});
  }
};

// Random queries, keys and values of one sequence.
struct Sequence {
  std::vector<float> q, k, v;

  Sequence(const Setting& s, uint64_t seed, int64_t length = kLength)
      : q(random_values(length * kHeads * s.width(), seed)),
        k(random_values(length * s.n_kv_head * s.width(), seed + 1)),
        v(random_values(length * s.n_kv_head * s.width(), seed + 2)) {}
};

struct Result {
  int64_t cols;
  std::vector<float> out, lse;
  explicit Result(int64_t width, int64_t rows = kLength)
      : cols(kHeads * width),
        out(static_cast<size_t>(rows * cols), kNan),
        lse(static_cast<size_t>(rows * kHeads), kNan) {}
  bool operator==(const Result& o) const {
    return std::memcmp(out.data(), o.out.data(), out.size() * sizeof(float)) == 0 &&
           std::memcmp(lse.data(), o.lse.data(), lse.size() * sizeof(float)) == 0;
  }
  Result rows(int64_t from, int64_t n) const {
    Result part(cols / kHeads, n);
    std::copy_n(out.begin() + from * cols, n * cols, part.out.begin());
    std::copy_n(lse.begin() + from * kHeads, n * kHeads, part.lse.begin());
    return part;
  }
};

class AttentionBits : public ::testing::TestWithParam<Setting> {
 protected:
  AttentionShape shape() const {
    return {.n_head = kHeads,
            .n_kv_head = GetParam().n_kv_head,
            .head_dim = width(),
            .scale = 1 / std::sqrt(static_cast<double>(width())),
            .window = GetParam().window};
  }
  int64_t width() const { return GetParam().width(); }
  int64_t q_cols() const { return kHeads * width(); }
  int64_t kv_cols() const { return GetParam().n_kv_head * width(); }
  TensorView kv_view(std::vector<float>& v) const { return rows_view(v, kv_cols()); }

  void attend(AttentionShape s, const std::vector<AttentionSeq>& seqs, TensorView q, TensorView k,
              TensorView v, Result& r, int threads = 1, TensorView weights = {},
              DeviceSpan<const int32_t> pages = {}) const {
    ThreadPool pool(threads);
    const KernelTable& table = kernel_table(GetParam().isa);
    for (const AttentionSeq& seq : seqs) {
      s.max_q = std::max(s.max_q, seq.q_len);
      s.max_kv = std::max(s.max_kv, seq.kv_len);
    }
    const Workspace workspace(table.attention_scratch(s, s.max_q, s.max_kv, false, DType::f32), threads);
    HostDevice device;
    const Stored keys(GetParam(), k), values(GetParam(), v);
    table.attention_forward({device, pool, table, workspace.scratch()}, {.shape = s,
                                                                         .seqs = test::array_of(seqs),
                                                                         .pages = pages,
                                                                         .out = rows_view(r.out, q_cols()),
                                                                         .q = q,
                                                                         .k = keys.view,
                                                                         .v = values.view,
                                                                         .k_scale = keys.scale,
                                                                         .v_scale = values.scale,
                                                                         .lse = rows_view(r.lse, kHeads),
                                                                         .weights = weights});
  }

  Result whole(Sequence& s, int threads = 1, TensorView weights = {}) const {
    Result r(width());
    attend(shape(), {{.q_start = 0, .q_len = kLength, .kv_len = kLength}}, rows_view(s.q, q_cols()),
           kv_view(s.k), kv_view(s.v), r, threads, weights);
    return r;
  }
};

TEST_P(AttentionBits, ChunksOfAnySizeOverACacheThatFillsUp) {
  Sequence s(GetParam(), 1);
  const Result want = whole(s);
  for (int64_t chunk : {1, 5, 64, 100}) {
    std::vector<float> k(s.k.size(), kNan), v(s.v.size(), kNan);
    Result got(width());
    for (int64_t at = 0; at < kLength; at += chunk) {
      const int64_t n = std::min(chunk, kLength - at);
      std::copy_n(s.k.begin() + at * kv_cols(), n * kv_cols(), k.begin() + at * kv_cols());
      std::copy_n(s.v.begin() + at * kv_cols(), n * kv_cols(), v.begin() + at * kv_cols());
      attend(shape(), {{.q_start = at, .q_len = n, .kv_len = at + n}}, rows_view(s.q, q_cols()), kv_view(k),
             kv_view(v), got);
    }
    EXPECT_TRUE(got == want) << "chunks of " << chunk;
  }
}

TEST_P(AttentionBits, InABatchInPagesInAnyOrder) {
  Sequence a(GetParam(), 1), b(GetParam(), 5, 90);
  const Result want = whole(a);
  // The batch contains the last 60 queries of b, then all of a. Both sequences use cache pages of 16 tokens
  // in a nonsequential order. The rest of the cache is NaN.
  constexpr int64_t kBlock = 16, kBlocks = 40;
  std::vector<int32_t> table_a(13), table_b(6);
  for (size_t i = 0; i < table_a.size(); ++i)
    table_a[i] = static_cast<int32_t>(38 - 2 * static_cast<int>(i));
  for (size_t i = 0; i < table_b.size(); ++i)
    table_b[i] = static_cast<int32_t>(2 * i + 1);
  std::vector<float> k(static_cast<size_t>(kBlocks * kBlock * kv_cols()), kNan), v = k;
  const auto fill = [&](const std::vector<int32_t>& table, const std::vector<float>& from,
                        std::vector<float>& to) {
    for (int64_t t = 0; t * kv_cols() < static_cast<int64_t>(from.size()); ++t) {
      const int64_t row = table[static_cast<size_t>(t / kBlock)] * kBlock + t % kBlock;
      std::copy_n(from.begin() + t * kv_cols(), kv_cols(), to.begin() + row * kv_cols());
    }
  };
  fill(table_a, a.k, k);
  fill(table_a, a.v, v);
  fill(table_b, b.k, k);
  fill(table_b, b.v, v);
  std::vector<float> q(b.q.end() - 60 * q_cols(), b.q.end());
  q.insert(q.end(), a.q.begin(), a.q.end());
  AttentionShape s = shape();
  s.page_size = kBlock;
  Result got(width(), 60 + kLength);
  std::vector<int32_t> pages = table_b;
  pages.insert(pages.end(), table_a.begin(), table_a.end());
  attend(s,
         {{.q_start = 0, .q_len = 60, .kv_len = 90, .first_page = 0},
          {.q_start = 60, .q_len = kLength, .kv_len = kLength, .first_page = std::ssize(table_b)}},
         rows_view(q, q_cols()), kv_view(k), kv_view(v), got, 1, {}, test::array_of(pages));
  EXPECT_TRUE(got.rows(60, kLength) == want);
}

TEST_P(AttentionBits, Threads) {
  Sequence s(GetParam(), 1);
  const Result want = whole(s);
  for (int threads : {2, 3, 7})
    EXPECT_TRUE(whole(s, threads) == want) << threads << " threads";
}

TEST_P(AttentionBits, ManyKeysInOneCallOrSharedByThreads) {
  constexpr int64_t kKeys = 4500, kQueries = 3;
  Sequence s(GetParam(), 1, kKeys);
  const std::vector<float> q(s.q.end() - kQueries * q_cols(), s.q.end());
  AttentionShape long_shape = shape();
  if (long_shape.window > 0) long_shape.window = 3000;
  const auto queries = [&](int64_t first, int64_t n, int threads) {
    std::vector<float> some(q.begin() + first * q_cols(), q.begin() + (first + n) * q_cols());
    Result r(width(), n);
    attend(long_shape, {{.q_start = 0, .q_len = n, .kv_len = kKeys - kQueries + first + n}},
           rows_view(some, q_cols()), kv_view(s.k), kv_view(s.v), r, threads);
    return r;
  };
  const Result want = queries(0, kQueries, 1);
  for (int64_t i = 0; i < kQueries; ++i) {
    for (int threads : {1, 2, 7})
      EXPECT_TRUE(queries(i, 1, threads) == want.rows(i, 1))
          << "query " << i << ", " << threads << " threads";
  }
}

TEST_P(AttentionBits, LaterTokensHaveNoInfluenceEvenWhenNotFinite) {
  Sequence s(GetParam(), 1);
  const Result want = whole(s);
  for (int64_t last : {1, 63, 64, 66, 130}) {
    Sequence bad = s;
    std::fill(bad.k.begin() + last * kv_cols(), bad.k.end(), kNan);
    std::fill(bad.v.begin() + last * kv_cols(), bad.v.end(), std::numeric_limits<float>::infinity());
    EXPECT_TRUE(whole(bad).rows(0, last) == want.rows(0, last)) << last << " good tokens";
  }
}

TEST_P(AttentionBits, AskingForWeights) {
  Sequence s(GetParam(), 1);
  std::vector<float> weights(static_cast<size_t>(kHeads * kLength * kLength));
  EXPECT_TRUE(whole(s, 1, make_view(weights.data(), {1, kHeads, kLength, kLength})) == whole(s));
}

TEST_P(AttentionBits, NanReachesTheRowsThatSeeIt) {
  Sequence s(GetParam(), 1);
  s.k[static_cast<size_t>(100 * kv_cols())] = kNan;
  const Result r = whole(s);
  EXPECT_TRUE(std::isnan(r.out[static_cast<size_t>(100 * q_cols())]));
  EXPECT_TRUE(std::isnan(r.lse[100 * kHeads]));
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const Isa isa : available_isas()) {
    for (int64_t kv_heads : {6, 2, 1}) {
      for (int64_t window : {0, 77}) {
        for (DType cache : {DType::f32, DType::bf16, DType::f16, DType::i8, DType::q4_0}) {
          const bool wanted = kv_heads == 2 || (isa != Isa::ref && cache == DType::f32);
          if (wanted) all.push_back({isa, kv_heads, window, cache});
        }
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Attention, AttentionBits, ::testing::ValuesIn(settings()),
                         [](const auto& p) { return testing::PrintToString(p.param); });

}  // namespace
}  // namespace gpt
