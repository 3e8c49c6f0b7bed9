#include <cmath>
#include <limits>

#include "kernels/cpu/attention_util.h"
#include "kernels/cpu/ref/ref.h"
#include "kernels/quant.h"

namespace gpt::ref {
namespace {

// The columns of k or v that belong to one key/value head, for any dtype.
struct HeadRows {
  const TensorView& view;
  const TensorView& scale;  // scales of int8 rows, else absent
  int64_t head, width;

  double at(int64_t row, int64_t d) const {
    if (view.dtype == DType::q4_0) return of_block(row, head * width + d);
    if (view.dtype != DType::i8) return get<double>(view, row, head * width + d);
    return view.row<int8_t>(row)[head * width + d] * get<double>(scale, row, head);
  }
  double of_block(int64_t row, int64_t c) const {
    const BlockQ4& block = static_cast<const BlockQ4*>(view.slice_rows(row, 1).data)[c / kQuantBlock];
    const int64_t j = c % kQuantBlock, half = kQuantBlock / 2;
    const int q = j < half ? block.q[j] & 15 : block.q[j - half] >> 4;
    return static_cast<double>(to_float(block.d)) * (q - 8);
  }
};

double dot(const TensorView& q, int64_t row, int64_t head, const HeadRows& keys, int64_t key_row) {
  double sum = 0;
  for (int64_t d = 0; d < keys.width; ++d)
    sum += get<double>(q, row, head * keys.width + d) * keys.at(key_row, d);
  return sum;
}

// Computes the attention weights of one query: w receives the softmax of the query's scores over the keys in
// `range`, starting with the first of these keys. Returns log(sum exp(score)).
double attention_weights(const AttentionShape& s, const AttentionSeq& seq, const TensorView& q, int64_t row,
                         int64_t head, const HeadRows& keys, const int32_t* pages, KeyRange range,
                         double* w) {
  double top = -std::numeric_limits<double>::infinity();
  for (int64_t t = range.begin; t < range.end; ++t) {
    double& score = w[t - range.begin];
    score = dot(q, row, head, keys, kv_row(s, seq, pages, t)) * s.scale;
    top = std::max(top, score);
  }
  const int64_t n = range.end - range.begin;
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += std::exp(w[i] - top);
  const double lse = top + std::log(sum);
  for (int64_t i = 0; i < n; ++i)
    w[i] = std::exp(w[i] - lse);
  return lse;
}

// Computes row i of a head: attention weights, optional dropout, and the weighted sum of the values.
void forward_row(const AttentionArgs& a, int64_t seq_index, int64_t head, int64_t i, double* w) {
  const AttentionShape& s = a.shape;
  const AttentionSeq& seq = unwrap(a.seqs)[seq_index];
  const int32_t* const pages = unwrap(a.pages);
  const int64_t row = seq.q_start + i;
  const KeyRange range = visible_keys(s, seq, i);
  const int64_t kv_head = head / (s.n_head / s.n_kv_head);
  const HeadRows keys = {a.k, a.k_scale, kv_head, s.head_dim};
  const HeadRows values = {a.v, a.v_scale, kv_head, s.head_dim};
  const double lse = attention_weights(s, seq, a.q, row, head, keys, pages, range, w);
  if (a.lse) set(a.lse, row, head, lse);

  const DropoutMask mask(s.dropout);
  for (int64_t t = range.begin; t < range.end; ++t)
    w[t - range.begin] *= mask.factor(attention_element(s, row, head, t));
  for (int64_t d = 0; d < s.head_dim; ++d) {
    double sum = 0;
    for (int64_t t = range.begin; t < range.end; ++t)
      sum += w[t - range.begin] * values.at(kv_row(s, seq, pages, t), d);
    set(a.out, row, head * s.head_dim + d, sum);
  }
  if (!a.weights) return;
  const int64_t kept = (seq_index * s.n_head + head) * a.weights.shape[2] + i;
  for (int64_t t = 0; t < a.weights.shape[3]; ++t)
    set(a.weights, kept, t, t >= range.begin && t < range.end ? w[t - range.begin] : 0);
}

// Computes the gradients of all query heads that share one key/value head of one sequence, so that every
// element of dk and dv is written by a single task. Every sum is completed before it is rounded to the dtype
// of its view.
class BackwardGroup {
 public:
  // scratch: 2 * head_dim doubles.
  BackwardGroup(const AttentionBackwardArgs& a, const AttentionSeq& seq, int64_t kv_head, double* scratch)
      : a_(a),
        s_(a.shape),
        seq_(seq),
        kv_head_(kv_head),
        keys_{a.k, none_, kv_head, s_.head_dim},
        values_{a.v, none_, kv_head, s_.head_dim},
        mask_(s_.dropout),
        first_(scratch),
        second_(scratch + s_.head_dim) {}

  void run() {
    for (int64_t head = kv_head_ * group(); head < (kv_head_ + 1) * group(); ++head) {
      for (int64_t i = 0; i < seq_.q_len; ++i)
        query(head, i);
    }
    for (int64_t t = 0; t < seq_.kv_len; ++t)
      key(t);
  }

 private:
  struct Weight {
    double dropped;  // attention weight after dropout
    double dscore;   // gradient of the dot product of query and key
  };

  int64_t group() const { return s_.n_head / s_.n_kv_head; }

  // Returns the sum of dL/dw * w over the keys, which equals the dot product of dout and out.
  double delta(int64_t head, int64_t row) const {
    double sum = 0;
    for (int64_t c = head * s_.head_dim; c < (head + 1) * s_.head_dim; ++c)
      sum += get<double>(a_.dout, row, c) * get<double>(a_.out, row, c);
    return sum;
  }

  Weight weight(int64_t head, int64_t i, int64_t t) const {
    const int64_t row = seq_.q_start + i, key_row = kv_row(s_, seq_, nullptr, t);
    const double score = dot(a_.q, row, head, keys_, key_row) * s_.scale;
    const double w = std::exp(score - get<double>(a_.lse, row, head));
    const double factor = mask_.factor(attention_element(s_, row, head, t));
    const double dw = dot(a_.dout, row, head, values_, key_row) * factor;
    return {w * factor, w * (dw - delta(head, row)) * s_.scale};
  }

  void query(int64_t head, int64_t i) {
    std::fill_n(first_, s_.head_dim, 0.0);
    const KeyRange range = visible_keys(s_, seq_, i);
    for (int64_t t = range.begin; t < range.end; ++t) {
      const Weight w = weight(head, i, t);
      for (int64_t d = 0; d < s_.head_dim; ++d)
        first_[d] += w.dscore * keys_.at(kv_row(s_, seq_, nullptr, t), d);
    }
    for (int64_t d = 0; d < s_.head_dim; ++d)
      set(a_.dq, seq_.q_start + i, head * s_.head_dim + d, first_[d]);
  }

  void key(int64_t t) {
    std::fill_n(first_, s_.head_dim, 0.0);
    std::fill_n(second_, s_.head_dim, 0.0);
    for (int64_t head = kv_head_ * group(); head < (kv_head_ + 1) * group(); ++head) {
      for (int64_t i = 0; i < seq_.q_len; ++i) {
        const KeyRange range = visible_keys(s_, seq_, i);
        if (t < range.begin || t >= range.end) continue;
        const Weight w = weight(head, i, t);
        for (int64_t d = 0; d < s_.head_dim; ++d) {
          first_[d] += w.dscore * get<double>(a_.q, seq_.q_start + i, head * s_.head_dim + d);
          second_[d] += w.dropped * get<double>(a_.dout, seq_.q_start + i, head * s_.head_dim + d);
        }
      }
    }
    for (int64_t d = 0; d < s_.head_dim; ++d) {
      set(a_.dk, kv_row(s_, seq_, nullptr, t), kv_head_ * s_.head_dim + d, first_[d]);
      set(a_.dv, kv_row(s_, seq_, nullptr, t), kv_head_ * s_.head_dim + d, second_[d]);
    }
  }

  const AttentionBackwardArgs& a_;
  const AttentionShape& s_;
  const AttentionSeq& seq_;
  const int64_t kv_head_;
  const TensorView none_ = {};
  const HeadRows keys_, values_;
  const DropoutMask mask_;
  double* const first_;
  double* const second_;
};

}  // namespace

// The scratch memory holds the attention weights of one query in the forward pass, and two rows of a head in
// the backward pass.
ScratchNeed attention_scratch(const AttentionShape& shape, int64_t, int64_t max_kv, bool backward, DType) {
  const int64_t numbers = backward ? 2 * shape.head_dim : max_kv;
  return {.per_thread = numbers * static_cast<int64_t>(sizeof(double))};
}

void attention_forward(const ExecContext& ctx, const AttentionArgs& a) noexcept {
  const auto n_seq = static_cast<int64_t>(a.seqs.size());
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(attention_scratch(a.shape, a.shape.max_q, most_visible_keys(a.shape),
                                                         false, a.q.dtype)));
  ctx.pool.parallel_for(n_seq * a.shape.n_head, [&](int64_t task, int thread) {
    const int64_t seq = task / a.shape.n_head;
    for (int64_t i = 0; i < unwrap(a.seqs)[seq].q_len; ++i)
      forward_row(a, seq, task % a.shape.n_head, i, ctx.scratch.thread<double>(thread));
  });
}

void attention_backward(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept {
  const auto n_seq = static_cast<int64_t>(a.seqs.size());
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(attention_scratch(a.shape, a.shape.max_q, most_visible_keys(a.shape),
                                                         true, a.q.dtype)));
  ctx.pool.parallel_for(n_seq * a.shape.n_kv_head, [&](int64_t task, int thread) {
    const AttentionSeq& seq = unwrap(a.seqs)[task / a.shape.n_kv_head];
    BackwardGroup(a, seq, task % a.shape.n_kv_head, ctx.scratch.thread<double>(thread)).run();
  });
}

}  // namespace gpt::ref
