#include "trace/views.h"

#include <algorithm>
#include <cmath>

#include "base/ranges.h"
#include "tensor/element.h"

namespace gpt {
namespace {

const char* about_attention(const std::string& step, const ModelConfig& c) {
  const bool rotated = c.position == Position::rope;
  if (step == "q.projected") return "queries of all heads";
  if (step == "k.projected") return "keys";
  if (step == "q.rotated" || step == "k.rotated") return rotated ? "rotated by position" : "";
  if (step == "q" || step == "k")
    return c.qk_norm ? "normalized per head" : rotated ? "rotated by position" : "as projected";
  if (step == "v") return "values";
  if (step == "attention") return "attention weights, each row sums to 1";
  if (step == "heads") return "weighted sums of values, all heads";
  return "projected to the width of the stream";
}

const char* about(const std::string& step, const ModelConfig& c) {
  const bool post = c.norm_position == NormPosition::post;
  if (step == "in") return "the residual stream";
  if (step == "norm1.out") return post ? "norm of the sum" : "norm";
  if (step == "mid") return "stream + attention";
  if (step == "norm2.out") return "norm";
  if (step == "mlp.gate") return "input of the gate activation";
  if (step == "mlp.fc") return c.is_gated() ? "values that the gate multiplies" : "input of the activation";
  if (step == "mlp.hidden") return "neurons";
  if (step == "mlp.out") return "projected to the width of the stream";
  if (step == "sum") return "stream + mlp";
  if (step == "out") return post ? "norm of the sum" : "stream + mlp";
  return about_attention(step, c);
}

}  // namespace

double row_norm(const TensorView& x, int64_t r) {
  double sum = 0;
  for (int64_t c = 0; c < x.cols(); ++c) {
    const double v = element(x, r, c);
    sum += v * v;
  }
  return std::sqrt(sum);
}

double frobenius(const TensorView& x) {
  double sum = 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    const double n = row_norm(x, r);
    sum += n * n;
  }
  return std::sqrt(sum);
}

double mean_row_norm(const TensorView& x) {
  return sum_of(transformed_indices(x.rows(), [&](int64_t r) { return row_norm(x, r); })) /
         static_cast<double>(x.rows());
}

Change change(const TensorView& before, const TensorView& branch, const TensorView& after) {
  Change out;
  double squares = 0, dot = 0;
  for (int64_t r = 0; r < before.rows(); ++r) {
    for (int64_t c = 0; c < before.cols(); ++c) {
      const double a = element(before, r, c), b = element(after, r, c);
      squares += (b - a) * (b - a);
      dot += a * b;
    }
  }
  const double start = frobenius(before);
  out.added = branch ? frobenius(branch) : 0;
  out.absolute = std::sqrt(squares);
  out.norm = frobenius(after);
  out.relative = start > 0 ? out.absolute / start : 0;
  out.cosine = start > 0 && out.norm > 0 ? dot / (start * out.norm) : 0;
  return out;
}

BlockChange block_change(const Capture& capture, int64_t layer) {
  const BlockTrace& a = capture.block(layer);
  const bool post = capture.config().norm_position == NormPosition::post;
  const TensorView& mid = post ? a.norm1_out : a.mid;
  return {.attention = change(a.in, a.attention_out, mid),
          .mlp = change(mid, a.mlp_out, a.out),
          .block = change(a.in, {}, a.out)};
}

bool is_masked(const ModelConfig& c, int64_t query, int64_t key) {
  return key > query || (c.sliding_window > 0 && key <= query - c.sliding_window);
}

std::vector<AttentionScore> score_row(const Capture& capture, int64_t layer, int64_t head, int64_t query) {
  const ModelConfig& c = capture.config();
  const TensorView& qkv = capture.block(layer).qkv;
  const int64_t D = c.head_dim, T = capture.n_tokens();
  const int64_t q0 = head * D, k0 = c.q_dim() + head / (c.n_head / c.n_kv_head) * D;
  std::vector<AttentionScore> row(static_cast<size_t>(T));
  double largest = -INFINITY;
  for (int64_t t = 0; t < T; ++t) {
    AttentionScore& s = row[static_cast<size_t>(t)];
    for (int64_t d = 0; d < D; ++d)
      s.dot += element(qkv, query, q0 + d) * element(qkv, t, k0 + d);
    s.scaled = s.dot / std::sqrt(static_cast<double>(D));
    s.masked = is_masked(c, query, t);
    if (!s.masked) largest = std::max(largest, s.scaled);
  }
  double sum = 0;
  for (AttentionScore& s : row) {
    if (s.masked) continue;
    s.weight = std::exp(s.scaled - largest);
    sum += s.weight;
  }
  for (AttentionScore& s : row)
    s.weight /= sum;
  return row;
}

HeadSummary head_summary(const Capture& capture, int64_t layer, int64_t head) {
  const TensorView weights = capture.block(layer).weights;
  const int64_t T = capture.n_tokens();
  HeadSummary out;
  for (int64_t i = 0; i < T; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      const double w = element(weights, head * T + i, j);
      if (w > 0) out.entropy -= w * std::log2(w);
      out.distance += w * static_cast<double>(i - j);
      if (j == i) out.self += w;
      if (j == i - 1) out.previous += w;
      if (j == 0) out.first += w;
    }
  }
  const auto n = static_cast<double>(T);
  return {.entropy = out.entropy / n,
          .self = out.self / n,
          .previous = T > 1 ? out.previous / (n - 1) : 0,
          .first = out.first / n,
          .distance = out.distance / n};
}

const char* head_habit(const HeadSummary& s) {
  const double most = std::max({s.self, s.previous, s.first});
  if (!(most > 0.5)) return "spread";
  if (most == s.previous) return "previous token";
  return most == s.first ? "first token" : "itself";
}

namespace {

// Returns the input of the MLP's activation function. A neuron is active if this input is positive.
TensorView activation_argument(const Capture& capture, int64_t layer) {
  const TensorView& fc = capture.block(layer).mlp_fc;
  return capture.config().is_gated() ? fc.slice_cols(0, capture.config().d_ff) : fc;
}

}  // namespace

MlpSummary mlp_summary(const Capture& capture, int64_t layer) {
  const TensorView x = activation_argument(capture, layer);
  std::vector<bool> ever(static_cast<size_t>(x.cols()));
  int64_t active = 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t f = 0; f < x.cols(); ++f) {
      if (!(element(x, r, f) > 0)) continue;
      ++active;
      ever[static_cast<size_t>(f)] = true;
    }
  }
  const auto never = std::ranges::count(ever, false);
  return {.active = static_cast<double>(active) / static_cast<double>(x.size()),
          .never = static_cast<double>(never) / static_cast<double>(x.cols())};
}

std::vector<Neuron> top_neurons(const Capture& capture, int64_t layer, int64_t token, int64_t n) {
  const TensorView& hidden = capture.block(layer).mlp_hidden;
  std::vector<Neuron> all = transformed_indices(hidden.cols(), [&](int64_t f) {
    return Neuron{f, element(hidden, token, f)};
  });
  const auto kept = static_cast<size_t>(std::min<int64_t>(n, hidden.cols()));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [](const Neuron& a, const Neuron& b) {
                      const double x = std::abs(a.value), y = std::abs(b.value);
                      return x != y ? x > y : a.index < b.index;
                    });
  all.resize(kept);
  return all;
}

Prediction predict(const TensorView& logits, int64_t row, int32_t next, int64_t top_k) {
  const int64_t V = logits.cols();
  std::vector<Candidate> all(static_cast<size_t>(V));
  double largest = -INFINITY, sum = 0, weighted = 0;
  for (int64_t v = 0; v < V; ++v) {
    const double z = element(logits, row, v);
    all[static_cast<size_t>(v)] = {static_cast<int32_t>(v), z, 0};
    largest = std::max(largest, z);
  }
  for (const Candidate& c : all) {
    const double e = std::exp(c.logit - largest);
    sum += e;
    weighted += e * c.logit;
  }
  Prediction out;
  out.log_sum = largest + std::log(sum);
  out.entropy = (out.log_sum - weighted / sum) / std::log(2.0);
  const auto before = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  if (next >= 0) {
    const Candidate& came = all[static_cast<size_t>(next)];
    out.next = next;
    out.next_probability = std::exp(came.logit - out.log_sum);
    out.next_rank = 1 + std::ranges::count_if(all, [&](const Candidate& c) { return before(c, came); });
  }
  const auto kept = std::min<std::ptrdiff_t>(std::max<int64_t>(top_k, 0), V);
  std::partial_sort(all.begin(), all.begin() + kept, all.end(), before);
  all.resize(static_cast<size_t>(kept));
  for (Candidate& c : all)
    c.probability = std::exp(c.logit - out.log_sum);
  out.top = std::move(all);
  return out;
}

namespace {

std::vector<Prediction> predict_rows(const TensorView& logits, std::span<const int32_t> ids, int64_t top_k) {
  return transformed_indices(std::ssize(ids), [&](int64_t t) {
    const int32_t next = t + 1 < std::ssize(ids) ? ids[static_cast<size_t>(t + 1)] : -1;
    return predict(logits, t, next, top_k);
  });
}

}  // namespace

std::vector<Prediction> predictions(const Capture& capture, int64_t top_k) {
  return predict_rows(capture.logits(), capture.ids(), top_k);
}

LogitLens logit_lens(Capture& capture, int64_t top_k) {
  const TensorView wide = capture.logits();
  Buffer memory(static_cast<size_t>(wide.size()) * dtype_size(wide.dtype), "logits of the logit lens");
  const TensorView logits = make_view(memory.data(), wide.dtype, {wide.rows(), wide.cols()});
  LogitLens lens;
  for (int64_t i = 0; i <= capture.n_layer(); ++i) {
    capture.read_out(capture.residual(i), logits);
    lens.push_back(predict_rows(logits, capture.ids(), top_k));
  }
  return lens;
}

std::vector<BlockStep> block_steps(const Capture& capture, int64_t layer) {
  const std::string prefix = "blocks." + std::to_string(layer) + ".";
  std::vector<BlockStep> steps;
  for (const NamedActivation& a : capture.activations()) {
    if (a.name.rfind(prefix, 0) != 0) continue;
    const std::string name = a.name.substr(prefix.size());
    BlockStep step{name, a.view, a.shape, about(name, capture.config()), 0, INFINITY, -INFINITY};
    double squares = 0;
    for (int64_t r = 0; r < a.view.rows(); ++r) {
      for (int64_t c = 0; c < a.view.cols(); ++c) {
        const double x = element(a.view, r, c);
        squares += x * x;
        step.low = std::min(step.low, x);
        step.high = std::max(step.high, x);
      }
    }
    step.rms = std::sqrt(squares / static_cast<double>(a.view.size()));
    steps.push_back(step);
  }
  return steps;
}

}  // namespace gpt
