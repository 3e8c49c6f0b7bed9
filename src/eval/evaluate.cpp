#include "eval/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "base/error.h"
#include "base/ranges.h"
#include "distributed/shares.h"
#include "model/inference.h"
#include "model/training_graph.h"
#include "tensor/buffer.h"

namespace gpt {
namespace {

constexpr int64_t kMaxBatch = 65536;

// The contribution of one predicted token to a comparison.
struct Prediction {
  double nats_q = 0, nats_p = 0;
  double kl = 0;
  bool same_top = false;
};

// Computes the prediction from the logits zq and zp of a row. With e = exp(zp - max zp) and s its sum, the
// divergence is sum e (zp - zq) / s - (lse(zp) - lse(zq)).
Prediction predict(std::span<const float> zq, std::span<const float> zp, int32_t target) {
  const auto top_q = std::max_element(zq.begin(), zq.end()) - zq.begin();
  const auto top_p = std::max_element(zp.begin(), zp.end()) - zp.begin();
  const double max_q = zq[static_cast<size_t>(top_q)], max_p = zp[static_cast<size_t>(top_p)];
  double sum_q = 0, sum_p = 0, difference = 0;
  for (size_t i = 0; i < zp.size(); ++i) {
    const double p = zp[i], q = zq[i], e = std::exp(p - max_p);
    sum_q += std::exp(q - max_q);
    sum_p += e;
    difference += e * (p - q);
  }
  const double lse_q = max_q + std::log(sum_q), lse_p = max_p + std::log(sum_p);
  return {.nats_q = lse_q - zq[static_cast<size_t>(target)],
          .nats_p = lse_p - zp[static_cast<size_t>(target)],
          .kl = std::max(0.0, difference / sum_p - (lse_p - lse_q)),
          .same_top = top_q == top_p};
}

bool is_finite(const Prediction& x) {
  return std::isfinite(x.nats_q) && std::isfinite(x.nats_p) && std::isfinite(x.kl);
}

// Returns the number of rows of logits that are computed at a time. The two logits buffers have at most 16
// MiB each, unless the vocabulary is very large.
int64_t rows_at_once(int64_t vocab_size, int64_t n_ctx) {
  return std::clamp<int64_t>((int64_t{1} << 22) / vocab_size, std::min<int64_t>(n_ctx, 16), n_ctx);
}

// Computes windows with both models of a comparison.
class Pair {
 public:
  Pair(const Model& model, const Windowing& w, const EvalOptions& o, const ComparedModel& p,
       const Backend& backend)
      : vocab_(model.config.vocab_size),
        rows_(rows_at_once(vocab_, w.n_ctx)),
        pool_(backend.pool),
        q_(model, backend, options(w, rows_, o.adapter, o.dtype)),
        p_(p.model, backend, options(w, rows_, p.adapter, p.dtype)),
        logits_q_(buffer_bytes(), "logits"),
        logits_p_(buffer_bytes(), "logits") {
    if (o.adapter != nullptr) adapter_q_ = q_.add_adapter(o.adapter);
    if (p.adapter != nullptr) adapter_p_ = p_.add_adapter(p.adapter);
  }

  // Appends the predictions of a window for all targets that are not ignored.
  void run(std::span<const int32_t> ids, std::span<const int32_t> targets, std::vector<Prediction>& out) {
    q_.reset(0, adapter_q_);
    p_.reset(0, adapter_p_);
    size_t scored = targets.size();  // ids beyond the last target are padding
    while (scored > 0 && targets[scored - 1] == kIgnoredTarget)
      --scored;
    for (size_t at = 0; at < scored; at += static_cast<size_t>(rows_)) {
      const size_t n = std::min(scored - at, static_cast<size_t>(rows_));
      run_rows(ids.subspan(at, n), targets.subspan(at, n), out);
    }
  }

 private:
  static Inference::Options options(const Windowing& w, int64_t rows,
                                    const std::shared_ptr<const Adapter>& adapter, DType dtype) {
    const InferenceTypes types = inference_types(dtype);
    return {.slots = 1,
            .max_rows = rows,
            .capacity = w.n_ctx,
            .dtype = types.activations,
            .weights = dtype,
            .kv_dtype = types.cache,
            .adapter_rank = adapter != nullptr ? adapter->rank : 0};
  }
  size_t buffer_bytes() const { return static_cast<size_t>(rows_ * vocab_) * sizeof(float); }

  void run_rows(std::span<const int32_t> ids, std::span<const int32_t> targets,
                std::vector<Prediction>& out) {
    const auto n = std::ssize(ids);
    const TensorView zq = make_view(logits_q_.as<float>(), {n, vocab_});
    const TensorView zp = make_view(logits_p_.as<float>(), {n, vocab_});
    q_.append_all(0, ids, zq);
    p_.append_all(0, ids, zp);
    rows_out_.resize(ids.size());
    const auto row = [&](const TensorView& z, int64_t r) {
      return std::span<const float>(z.row<float>(r), static_cast<size_t>(vocab_));
    };
    pool_.parallel_for(n, [&](int64_t r, int) {
      const int32_t target = targets[static_cast<size_t>(r)];
      if (target != kIgnoredTarget)
        rows_out_[static_cast<size_t>(r)] = predict(row(zq, r), row(zp, r), target);
    });
    for (size_t r = 0; r < ids.size(); ++r) {
      if (targets[r] != kIgnoredTarget) out.push_back(rows_out_[r]);
    }
  }

  int64_t vocab_, rows_;
  int adapter_q_ = -1, adapter_p_ = -1;
  ThreadPool& pool_;
  Inference q_, p_;
  Buffer logits_q_, logits_p_;
  std::vector<Prediction> rows_out_;
};

// Converts predictions to plain numbers, which the ranks exchange.
std::vector<double> numbers_of(const std::vector<Prediction>& predictions) {
  std::vector<double> numbers;
  for (const Prediction& x : predictions)
    numbers.insert(numbers.end(), {x.nats_q, x.nats_p, x.kl, x.same_top ? 1.0 : 0.0});
  return numbers;
}

std::vector<Prediction> predictions_of(const std::vector<double>& numbers) {
  return transformed_indices(std::ssize(numbers) / 4, [&](int64_t i) {
    const double* x = numbers.data() + 4 * i;
    return Prediction{.nats_q = x[0], .nats_p = x[1], .kl = x[2], .same_top = x[3] != 0};
  });
}

// The ranks compute the batches in rounds, one batch per rank and round. Returns the number of windows that
// are complete after the round that contains `batch`.
int64_t done_with(int64_t batch, int64_t batch_size, int64_t windows, const EvalOptions& options) {
  const int64_t rounds = batch / options.processes->size() + 1;
  return std::min(rounds * options.processes->size() * batch_size, windows);
}

void summarize(std::vector<Prediction>& predictions, Comparison& c) {
  const auto n = static_cast<double>(predictions.size());
  double kl = 0;
  int64_t same = 0;
  for (const Prediction& x : predictions) {
    c.result.nats += x.nats_q;
    c.against.nats += x.nats_p;
    kl += x.kl;
    same += x.same_top;
  }
  c.kl_mean = kl / n;
  c.same_top = static_cast<double>(same) / n;
  std::sort(predictions.begin(), predictions.end(),
            [](const Prediction& a, const Prediction& b) { return a.kl < b.kl; });
  c.kl_99 = predictions[static_cast<size_t>(std::ceil(0.99 * n)) - 1].kl;
  c.kl_max = predictions.back().kl;
}

}  // namespace

double EvalResult::loss() const {
  return nats / static_cast<double>(tokens);
}
double EvalResult::perplexity() const {
  return std::exp(loss());
}
double EvalResult::bits_per_byte() const {
  return text_bytes == 0 ? 0 : nats / std::numbers::ln2 / static_cast<double>(text_bytes);
}

EvalResult evaluate(const Model& model, const TokenSpan& data, const EvalOptions& options,
                    const Backend& backend, const std::function<void(int64_t, int64_t)>& progress) {
  const Windowing w = choose_windows(model.config, data, options);
  const SequentialWindows windows(data, w.n_ctx, w.stride);
  TrainingGraph graph(model, w.batch_size, w.n_ctx,
                      {.gradients = false,
                       .dtype = inference_types(options.dtype).activations,
                       .weights = options.dtype,
                       .adapter = options.adapter.get()},
                      backend);
  std::vector<int32_t> ids(static_cast<size_t>(w.batch_size * w.n_ctx)), targets(ids.size());
  EvalResult result{.tokens = windows.scored(),
                    .text_bytes = windows.scored_text_bytes(),
                    .n_ctx = w.n_ctx,
                    .stride = w.stride};
  const auto nats_of = [&](int64_t batch) {
    const int64_t first = batch * w.batch_size, count = std::min(w.batch_size, windows.count() - first);
    std::fill(ids.begin(), ids.end(), 0);  // rows beyond the last window do not count
    std::fill(targets.begin(), targets.end(), kIgnoredTarget);
    windows.fill(first, count, ids.data(), targets.data());
    check_ids(ids, targets, model.config.vocab_size);
    const double nats = graph.loss({.ids = ids.data(), .targets = targets.data()});
    if (!std::isfinite(nats))
      fail("the loss is not finite in windows {} to {}; the model's weights are damaged", first,
           first + count - 1);
    if (progress) progress(done_with(batch, w.batch_size, windows.count(), options), windows.count());
    return std::vector<double>{nats};
  };
  const int64_t batches = (windows.count() + w.batch_size - 1) / w.batch_size;
  const auto nats =
      compute_in_shares(*options.processes, batches, nats_of, options.stop, "evaluation", options.idle);
  result.stopped = !nats;
  if (nats) result.nats = sum_of(*nats);
  return result;
}

Windowing choose_windows(const ModelConfig& config, const TokenSpan& data, const EvalOptions& options) {
  Windowing w{.n_ctx = options.n_ctx, .stride = options.stride, .batch_size = options.batch_size};
  if (w.n_ctx == 0) w.n_ctx = config.n_ctx;
  if (w.n_ctx < 1 || w.n_ctx > config.n_ctx) {
    fail_parameter("n_ctx", "expected 1 to {} (the model's context), found {}", config.n_ctx, w.n_ctx);
  }
  if (w.stride == 0) w.stride = w.n_ctx;
  if (w.stride < 1 || w.stride > w.n_ctx)
    fail_parameter("stride", "expected 1 to n_ctx = {}, found {}", w.n_ctx, w.stride);
  if (w.batch_size < 0 || w.batch_size > kMaxBatch) {
    fail_parameter("batch_size", "expected 1 to {}, found {}", kMaxBatch, w.batch_size);
  }
  if (data.size() < 2) fail("the text to evaluate has {} token(s); at least 2 are needed", data.size());
  // A text that is shorter than a window does not need memory for a whole window.
  w.n_ctx = std::min(w.n_ctx, data.size() - 1);
  w.stride = std::min(w.stride, w.n_ctx);
  if (w.batch_size == 0) w.batch_size = std::max<int64_t>(1, kEvalRows / w.n_ctx);
  w.batch_size = std::min(w.batch_size, SequentialWindows(data, w.n_ctx, w.stride).count());
  return w;
}

void check_ids(const std::vector<int32_t>& ids, const std::vector<int32_t>& targets, int64_t vocab_size) {
  const auto check = [&](int32_t id) {
    if (id < vocab_size) return;
    fail("the text has the token id {}, but the model only has ids 0 to {}; use the tokenizer of the model",
         id, vocab_size - 1);
  };
  std::for_each(ids.begin(), ids.end(), check);
  std::for_each(targets.begin(), targets.end(), check);
}

bool same_weights(const Model& a, const Model& b) {
  const auto equal = [](const TensorView& x, const TensorView& y) {
    if (x.dtype != y.dtype || x.transposed != y.transposed || x.ld != y.ld ||
        !std::ranges::equal(x.dims(), y.dims()))
      return false;
    const int64_t lines = x.transposed ? x.cols() : x.rows();
    return x.data == y.data ||
           std::memcmp(x.data, y.data, static_cast<size_t>(lines * row_bytes(x.dtype, x.ld))) == 0;
  };
  return std::ranges::equal(a.weights, b.weights, equal);
}

Comparison compare(const Model& model, const TokenSpan& data, const EvalOptions& options,
                   const ComparedModel& against, const Backend& backend,
                   const std::function<void(int64_t, int64_t)>& progress) {
  const ModelConfig& other = against.model.config;
  if (model.config.vocab_size != other.vocab_size)
    fail("the models to compare: expected the same vocabulary size, found {} and {} tokens",
         model.config.vocab_size, other.vocab_size);
  const Windowing w = choose_windows(other.n_ctx < model.config.n_ctx ? other : model.config, data, options);
  const SequentialWindows windows(data, w.n_ctx, w.stride);
  Pair pair(model, w, options, against, backend);
  std::vector<int32_t> ids(static_cast<size_t>(w.n_ctx)), targets(ids.size());
  const auto numbers_of_window = [&](int64_t k) {
    windows.fill(k, 1, ids.data(), targets.data());
    check_ids(ids, targets, model.config.vocab_size);
    std::vector<Prediction> predictions;
    pair.run(ids, targets, predictions);
    if (!std::all_of(predictions.begin(), predictions.end(), is_finite))
      fail("the loss is not finite in window {}; the model's weights are damaged", k);
    if (progress) progress(done_with(k, 1, windows.count(), options), windows.count());
    return numbers_of(predictions);
  };
  std::vector<Prediction> predictions =
      predictions_of(compute_in_shares(*options.processes, windows.count(), numbers_of_window, "evaluation"));
  Comparison c;
  c.result = {.tokens = windows.scored(),
              .text_bytes = windows.scored_text_bytes(),
              .n_ctx = w.n_ctx,
              .stride = w.stride};
  c.against = c.result;
  summarize(predictions, c);
  return c;
}

}  // namespace gpt
