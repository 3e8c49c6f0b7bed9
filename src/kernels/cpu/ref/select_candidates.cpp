#include <cmath>
#include <limits>

#include "kernels/cpu/ref/ref.h"
#include "kernels/select.h"

namespace gpt::ref {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Converts a double to float. Finite values outside the range of float are clamped, because converting them
// would be undefined behavior. Infinities are kept.
float to_float(double x) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::isinf(x) ? x : std::clamp(x, -kLargest, kLargest));
}

float changed(float logit, const ScoreChange& change, const SelectRow& r) {
  const float biased = to_float(logit + change.bias);
  if (change.count < 0) return biased;
  double x = biased;
  x = x > 0 ? x / r.repetition_penalty : x * r.repetition_penalty;
  if (change.count > 0) x -= r.presence_penalty + r.frequency_penalty * change.count;
  return to_float(x);
}

std::span<const float> make_scores(const SelectCandidatesArgs& a, const SelectRow& r,
                                   std::span<const float> logits) {
  if (r.scores_row < 0) return logits;
  float* const scores = a.scores.row<float>(r.scores_row);
  std::copy(logits.begin(), logits.end(), scores);
  for (const ScoreChange& change :
       std::span(unwrap(a.changes) + r.first_change, static_cast<size_t>(r.changes)))
    scores[change.id] = changed(scores[change.id], change, r);
  if (r.allowed_row >= 0) {
    const uint64_t* const allowed = unwrap(a.allowed) + r.allowed_row * ((std::ssize(logits) + 63) / 64);
    for (size_t id = 0; id < logits.size(); ++id) {
      if (id % 64 == 0 && allowed[id / 64] == ~uint64_t{0}) {  // all 64 tokens are allowed; the most common
                                                               // case within a text
        id += 63;
      } else if ((allowed[id / 64] >> (id % 64) & 1) == 0) {
        scores[id] = -kInf;
      }
    }
  }
  return {scores, logits.size()};
}

void select(const ExecContext& ctx, const SelectCandidatesArgs& a, int64_t i, float* maxima) {
  const SelectRow& r = unwrap(a.rows)[i];
  const int64_t vocab_size = a.logits.cols();
  GPT_OP_REQUIRE(ctx, vocab_size > 0 && r.k >= 0 && r.k <= vocab_size);
  const std::span logits(a.logits.row<const float>(r.row), static_cast<size_t>(vocab_size));
  Selection& out = unwrap(a.selections)[i];
  out = {.not_finite = first_not_finite(logits)};
  if (out.not_finite >= 0) return;
  if (r.log_sum) out.log_sum = log_sum_exp(logits);
  const std::span<const float> scores = make_scores(a, r, logits);
  if (r.k == 0) return;
  float* const heap = maxima + select_blocks(vocab_size);
  auto* const ids = reinterpret_cast<int32_t*>(heap + vocab_size);
  block_maxima(scores, maxima);
  out.count = ids_from(scores, maxima, kth_largest(scores, maxima, r.k, heap), ids);
  for (int64_t c = 0; c < std::min(out.count, a.capacity); ++c)
    unwrap(a.candidates)[i * a.capacity + c] = {ids[c], scores[static_cast<size_t>(ids[c])]};
}

}  // namespace

// The scratch memory holds the block maxima, a copy of the values, and the token ids.
ScratchNeed select_candidates_scratch(int64_t vocab_size) {
  return {.per_thread = 4 * (2 * vocab_size + select_blocks(vocab_size) + kSelectBlock)};
}

void select_candidates(const ExecContext& ctx, const SelectCandidatesArgs& a) noexcept {
  GPT_OP_REQUIRE(ctx, ctx.scratch.fits(select_candidates_scratch(a.logits.cols())));
  ctx.pool.parallel_for(static_cast<int64_t>(a.rows.size()),
                        [&](int64_t i, int thread) { select(ctx, a, i, ctx.scratch.thread<float>(thread)); });
}

}  // namespace gpt::ref
