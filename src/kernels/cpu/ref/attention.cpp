#include <cmath>
#include <limits>

#include "kernels/cpu/attention_util.h"
#include "kernels/cpu/ref/ref.h"

namespace gpt::ref {
namespace {

// Scores of one query against the keys it may see, then their softmax, in w[first..last].
// Returns log(sum exp(score)).
template <class T>
double attention_weights(const AttentionShape& s, const AttentionSeq& seq, const T* q, const TensorView& k,
                         int64_t head, KeyRange range, double* w) {
  const int64_t kv_column = head / (s.n_head / s.n_kv_head) * s.head_dim;
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t t = range.begin; t < range.end; ++t) {
    const T* key = k.row<T>(kv_row(s, seq, t)) + kv_column;
    double dot = 0;
    for (int64_t d = 0; d < s.head_dim; ++d)
      dot += double{q[d]} * key[d];
    w[t] = dot * s.scale;
    top = std::max(top, w[t]);
  }
  double sum = 0;
  for (int64_t t = range.begin; t < range.end; ++t)
    sum += std::exp(w[t] - top);
  const double lse = top + std::log(sum);
  for (int64_t t = range.begin; t < range.end; ++t)
    w[t] = std::exp(w[t] - lse);
  return lse;
}

// The task that computes row i of a head: weights, optional dropout, weighted sum of the values.
template <class T>
void forward_row(const AttentionArgs& a, int64_t seq_index, int64_t head, int64_t i, double* w) {
  const AttentionShape& s = a.shape;
  const AttentionSeq& seq = a.seqs[static_cast<size_t>(seq_index)];
  const int64_t row = seq.q_start + i;
  const KeyRange range = visible_keys(s, seq, i);
  const T* q = a.q.row<T>(row) + head * s.head_dim;
  const double lse = attention_weights(s, seq, q, a.k, head, range, w);
  if (a.lse) a.lse.row<T>(row)[head] = static_cast<T>(lse);

  const DropoutMask mask(s.dropout);
  const int64_t kv_column = head / (s.n_head / s.n_kv_head) * s.head_dim;
  for (int64_t t = range.begin; t < range.end; ++t)
    w[t] *= mask.factor(attention_element(s, row, head, t));
  T* out = a.out.row<T>(row) + head * s.head_dim;
  for (int64_t d = 0; d < s.head_dim; ++d) {
    double sum = 0;
    for (int64_t t = range.begin; t < range.end; ++t)
      sum += w[t] * a.v.row<T>(kv_row(s, seq, t))[kv_column + d];
    out[d] = static_cast<T>(sum);
  }
  if (!a.weights) return;
  T* kept = a.weights.as<T>() + ((seq_index * s.n_head + head) * a.weights.shape[2] + i) * a.weights.shape[3];
  for (int64_t t = 0; t < a.weights.shape[3]; ++t) {
    kept[t] = t >= range.begin && t < range.end ? static_cast<T>(w[t]) : T{0};
  }
}

// All query heads that share one key/value head of one sequence, so that dk and dv have one writer.
template <class T>
void backward_group(const AttentionBackwardArgs& a, const AttentionSeq& seq, int64_t kv_head, double* w) {
  const AttentionShape& s = a.shape;
  const int64_t group = s.n_head / s.n_kv_head;
  const int64_t kv_column = kv_head * s.head_dim;
  const DropoutMask mask(s.dropout);
  for (int64_t t = 0; t < seq.kv_len; ++t) {
    std::fill_n(a.dk.row<T>(kv_row(s, seq, t)) + kv_column, s.head_dim, T{0});
    std::fill_n(a.dv.row<T>(kv_row(s, seq, t)) + kv_column, s.head_dim, T{0});
  }
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t i = 0; i < seq.q_len; ++i) {
      const int64_t row = seq.q_start + i;
      const KeyRange range = visible_keys(s, seq, i);
      const T* q = a.q.row<T>(row) + head * s.head_dim;
      const T* dout = a.dout.row<T>(row) + head * s.head_dim;
      const T* out = a.out.row<T>(row) + head * s.head_dim;
      T* dq = a.dq.row<T>(row) + head * s.head_dim;
      attention_weights(s, seq, q, a.k, head, range, w);
      double delta = 0;  // sum over keys of dL/dw * w, which equals dout . out
      for (int64_t d = 0; d < s.head_dim; ++d)
        delta += double{dout[d]} * out[d];
      std::fill_n(dq, s.head_dim, T{0});
      for (int64_t t = range.begin; t < range.end; ++t) {
        const int64_t r = kv_row(s, seq, t);
        const T* key = a.k.row<T>(r) + kv_column;
        const T* value = a.v.row<T>(r) + kv_column;
        T* dkey = a.dk.row<T>(r) + kv_column;
        T* dvalue = a.dv.row<T>(r) + kv_column;
        const double factor = mask.factor(attention_element(s, row, head, t));
        double dw = 0;
        for (int64_t d = 0; d < s.head_dim; ++d)
          dw += double{dout[d]} * value[d];
        const double dscore = w[t] * (dw * factor - delta) * s.scale;
        for (int64_t d = 0; d < s.head_dim; ++d) {
          dq[d] += static_cast<T>(dscore * key[d]);
          dkey[d] += static_cast<T>(dscore * q[d]);
          dvalue[d] += static_cast<T>(w[t] * factor * dout[d]);
        }
      }
    }
  }
}

}  // namespace

void attention_forward(const ExecContext& ctx, const AttentionArgs& a) noexcept {
  dispatch(a.q.dtype, [&]<class T>(T) {
    const auto n_seq = static_cast<int64_t>(a.seqs.size());
    ctx.pool.parallel_for(n_seq * a.shape.n_head, [&](int64_t task, int thread) {
      const int64_t seq = task / a.shape.n_head;
      for (int64_t i = 0; i < a.seqs[static_cast<size_t>(seq)].q_len; ++i) {
        forward_row<T>(a, seq, task % a.shape.n_head, i, ctx.scratch.thread<double>(thread));
      }
    });
  });
}

void attention_backward(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept {
  dispatch(a.q.dtype, [&]<class T>(T) {
    const auto n_seq = static_cast<int64_t>(a.seqs.size());
    ctx.pool.parallel_for(n_seq * a.shape.n_kv_head, [&](int64_t task, int thread) {
      backward_group<T>(a, a.seqs[static_cast<size_t>(task / a.shape.n_kv_head)], task % a.shape.n_kv_head,
                        ctx.scratch.thread<double>(thread));
    });
  });
}

void store_rows(const ExecContext& ctx, const StoreRowsArgs& a) noexcept {
  dispatch(a.src.dtype, [&]<class T>(T) {
    for_rows(ctx, a.src.rows(),
             [&](int64_t n) { std::copy_n(a.src.row<T>(n), a.src.cols(), a.dst.row<T>(a.rows[n])); });
  });
}

}  // namespace gpt::ref
