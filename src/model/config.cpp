#include "model/config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace gpt {
namespace {

// Generous bounds: far above any real model, low enough that no product of them overflows int64.
constexpr int64_t kMaxDimension = int64_t{1} << 24;
constexpr int64_t kMaxLayers = 10000;

void check_range(const char* key, int64_t value, int64_t low, int64_t high) {
  if (value < low || value > high)
    fail("config key \"{}\": expected {} to {}, found {}", key, low, high, value);
}

void check_finite(const char* key, double value, double low, double high) {
  if (!(value >= low && value <= high))
    fail("config key \"{}\": expected {} to {}, found {}", key, low, high, value);
}

void complete_dropout(ModelConfig& c) {
  for (const auto& [key, p] : {std::pair{"dropout", c.dropout},
                               {"embd_dropout", c.embd_dropout},
                               {"attn_dropout", c.attn_dropout},
                               {"resid_dropout", c.resid_dropout}}) {
    if (!(p < 1)) fail("config key \"{}\": expected 0 up to, not including, 1, found {}", key, p);
  }
  if (c.dropout < 0 && c.embd_dropout < 0 && c.attn_dropout < 0 && c.resid_dropout < 0) c.dropout = 0;
  for (double* p : {&c.embd_dropout, &c.attn_dropout, &c.resid_dropout}) {
    if (*p < 0) *p = std::max(c.dropout, 0.0);
  }
  if (c.dropout < 0) c.dropout = std::max({c.embd_dropout, c.attn_dropout, c.resid_dropout});
}

void complete_heads(ModelConfig& c) {
  check_range("n_head", c.n_head, 1, 65536);
  if (c.n_kv_head == 0) c.n_kv_head = c.n_head;
  if (c.n_kv_head < 1 || c.n_kv_head > c.n_head || c.n_head % c.n_kv_head != 0) {
    fail("config key \"n_kv_head\": expected a divisor of n_head = {}, found {}", c.n_head, c.n_kv_head);
  }
  if (c.head_dim == 0) {
    if (c.n_embd % c.n_head != 0) {
      fail(
          "config key \"n_head\": n_embd = {} is not divisible by n_head = {}; change one of them or set "
          "head_dim",
          c.n_embd, c.n_head);
    }
    c.head_dim = c.n_embd / c.n_head;
  }
  check_range("head_dim", c.head_dim, 1, 4096);
  if (c.position == Position::rope && c.head_dim % 2 != 0) {
    fail("config key \"head_dim\": rotary positions need an even number, found {} (n_embd {} / n_head {})",
         c.head_dim, c.n_embd, c.n_head);
  }
}

void check_rope(const ModelConfig& c) {
  check_finite("rope_theta", c.rope_theta, 1e-3, 1e12);
  if (c.rope_sign != 1 && c.rope_sign != -1) {
    fail("config key \"rope_sign\": expected 1 (Llama) or -1 (nanochat), found {}", c.rope_sign);
  }
  const RopeScaling& s = c.rope_scaling;
  if (s.type == RopeScaling::Type::none) return;
  check_finite("rope_scaling.factor", s.factor, 1e-3, 1e6);
  if (s.type != RopeScaling::Type::llama3) return;
  check_range("rope_scaling.original_max_position_embeddings", s.original_n_ctx, 1, kMaxDimension);
  if (!(std::isfinite(s.low_freq_factor) && std::isfinite(s.high_freq_factor) && s.low_freq_factor > 0 &&
        s.high_freq_factor > s.low_freq_factor)) {
    fail("config key \"rope_scaling\": expected 0 < low_freq_factor < high_freq_factor, found {} and {}",
         s.low_freq_factor, s.high_freq_factor);
  }
}

}  // namespace

void complete(ModelConfig& c, bool vocab_known) {
  check_range("vocab_size", c.vocab_size, vocab_known ? 1 : 0, kMaxDimension);
  check_range("n_ctx", c.n_ctx, 1, kMaxDimension);
  check_range("n_layer", c.n_layer, 0, kMaxLayers);
  check_range("n_embd", c.n_embd, 1, 1 << 20);
  if (c.d_ff == 0) c.d_ff = 4 * c.n_embd;
  check_range("d_ff", c.d_ff, 1, 1 << 22);
  complete_heads(c);
  complete_dropout(c);
  check_finite("norm_eps", c.norm_eps, 0, 1);
  check_finite("init_std", c.init_std, 0, 100);
  check_finite("logit_softcap", c.logit_softcap, 0, 1e6);
  check_rope(c);
  check_range("sliding_window", c.sliding_window, 0, kMaxDimension);
  c.norm_bias = c.has_norm_bias();
  if (c.tie_embeddings && c.head_bias) fail("config key \"head_bias\": needs tie_embeddings = false");
}

}  // namespace gpt
