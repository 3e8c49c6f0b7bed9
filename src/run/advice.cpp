#include "run/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "report/next_step.h"
#include "run/plan.h"
#include "train/schedule.h"

namespace gpt {
namespace {

using Line = std::optional<Advice>;

std::vector<std::string> flag(const char* key, int64_t value) {
  return {flag_of(key), std::to_string(value)};
}

// Returns the maximum number of passes over the training text. Additional passes would make the model worse.
// Text repeated up to four times is nearly as good as new text (Muennighoff et al. 2023). A model that is
// small relative to its training text tolerates more passes. If the text has at least
// kOptimalTokensPerParameter tokens per parameter, the model cannot memorize the text, and the number of
// passes is not limited.
std::optional<double> bearable_passes(const AdviceFacts& f) {
  if (f.train_tokens >= kOptimalTokensPerParameter * f.parameters) return std::nullopt;
  return f.train_tokens < f.parameters ? 4 : 10;
}

Line passes(const AdviceFacts& f) {
  const TrainConfig& c = f.config.train;
  const int64_t step_tokens = c.batch_size * f.config.model.n_ctx;
  const double passes =
      static_cast<double>(c.steps) * static_cast<double>(step_tokens) / static_cast<double>(f.train_tokens);
  const auto most = bearable_passes(f);
  if (!most || passes <= *most || c.patience > 0) return std::nullopt;
  const auto steps = std::max<int64_t>(1, static_cast<int64_t>(*most * static_cast<double>(f.train_tokens) /
                                                               static_cast<double>(step_tokens)));
  return Advice{
      fmt::format("the run makes {} passes over {} tokens with {} parameters and will overfit; set `steps` "
                  "{}, use more data or a smaller model, or set `patience` 5",
                  format_passes(passes), format_count(f.train_tokens), format_count(f.parameters), steps),
      flag("steps", steps)};
}

Line large_batch(const AdviceFacts& f) {
  const TrainConfig& c = f.config.train;
  const int64_t n_ctx = f.config.model.n_ctx;
  if (c.batch_size == 1 || c.batch_size * n_ctx <= f.train_tokens) return std::nullopt;
  const int64_t batch = std::max<int64_t>(1, f.train_tokens / n_ctx / 4);
  return Advice{
      fmt::format(
          "a step of {} x {} tokens is larger than the training text of {} tokens; set `batch_size` {}",
          c.batch_size, n_ctx, format_thousands(f.train_tokens), batch),
      flag("batch_size", batch)};
}

Line little_validation(const AdviceFacts& f) {
  constexpr int64_t kWindows = 8;
  const TrainConfig& c = f.config.train;
  if (c.eval_every == 0 || f.val_tokens == 0) return std::nullopt;
  const int64_t windows = f.val_tokens / f.config.model.n_ctx;
  if (windows >= kWindows) return std::nullopt;
  return Advice{
      fmt::format("the validation text has only {} tokens ({} window{} of {}), so its loss is unreliable; "
                  "set a larger `val_fraction`, or set `val_data` to a validation text",
                  format_thousands(f.val_tokens), windows, windows == 1 ? "" : "s", f.config.model.n_ctx)};
}

Line warmup(const AdviceFacts& f) {
  constexpr double kHighRate = 1e-3;
  const TrainConfig& c = f.config.train;
  const int64_t tenth = std::clamp<int64_t>(c.steps / 10, 1, 100);
  if (c.warmup >= c.steps && c.steps > 1)
    return Advice{
        fmt::format(
            "the learning rate is still rising when the run ends, after {} of {} of warmup; set `warmup` {}",
            format_thousands(c.steps), format_amount(c.warmup, "step"), tenth),
        flag("warmup", tenth)};
  if (c.warmup == 0 && c.lr >= kHighRate && c.steps > 1)
    return Advice{
        fmt::format("training with a learning rate of {} from the first step may diverge; set `warmup` {}",
                    c.lr, tenth),
        flag("warmup", tenth)};
  return std::nullopt;
}

Line short_documents(const AdviceFacts& f) {
  if (f.documents < 2) return std::nullopt;
  const int64_t n_ctx = f.config.model.n_ctx, mean = f.train_tokens / f.documents;
  if (2 * mean >= n_ctx) return std::nullopt;
  const int64_t shorter = std::max<int64_t>(16, mean / 16 * 16);
  return Advice{fmt::format("the {} documents have {} tokens on average, but a window has {}, so most of a "
                            "window is text of other documents; set `n_ctx` {}",
                            format_thousands(f.documents), mean, n_ctx, shorter),
                // A run that starts from a model uses the tokenizer and the n_ctx of that model, so the
                // advice contains no flag for n_ctx.
                f.chosen_tokenizer ? flag("n_ctx", shorter) : std::vector<std::string>()};
}

Line large_vocabulary(const AdviceFacts& f) {
  constexpr int64_t kOccurrences = 100, kSmall = 1024;
  const int64_t vocab = f.config.model.vocab_size;
  if (!f.chosen_tokenizer || vocab <= kSmall || f.train_tokens / vocab >= kOccurrences) return std::nullopt;
  int64_t better = kSmall / 2;
  // With a smaller vocabulary, the text has more tokens than train_tokens, so this bound is conservative.
  while (f.train_tokens / (2 * better) >= 2 * kOccurrences)
    better *= 2;
  return Advice{
      fmt::format("each of the {} tokens of the vocabulary occurs {} in the text on average, too rarely to "
                  "be learned; use gpt tokenizer train --vocab-size {}, or set `tokenizer` byte",
                  format_thousands(vocab), format_amount(f.train_tokens / vocab, "time"), better)};
}

Line long_patience(const AdviceFacts& f) {
  const TrainConfig& c = f.config.train;
  const int64_t times = evaluations(c, c.steps);
  if (c.patience == 0 || c.patience < times) return std::nullopt;
  return Advice{fmt::format(
      "the run has {} evaluation{}, so `patience` {} never ends it; set a smaller `patience`, or "
      "`eval_every` {}",
      times, times == 1 ? "" : "s", c.patience, std::max<int64_t>(1, c.steps / (4 * c.patience)))};
}

Line long_evaluation(const AdviceFacts& f) {
  const TrainConfig& c = f.config.train;
  const double share = evaluation_share(c);
  const bool least = evaluations(c, c.steps) == 1 && c.eval_batches == 1 && !c.eval_train;
  if (f.val_tokens == 0 || share <= kEvaluationShare || least) return std::nullopt;
  TrainConfig less = c;
  less.eval_every = less.eval_batches = -1;
  complete_rhythm(less);
  std::vector<std::string> flags = flag("eval_every", less.eval_every);
  flags.insert(flags.end(), {flag_of("eval_batches"), std::to_string(less.eval_batches)});
  return Advice{
      fmt::format("evaluation takes {} of the run; `eval_every` {} and `eval_batches` {} reduce this to {}",
                  format_percent(share), less.eval_every, less.eval_batches,
                  format_percent(evaluation_share(less))),
      flags};
}

Line long_update(const AdviceFacts& f) {
  constexpr double kMost = 0.1;
  const double share = optimizer_share(f.config);
  if (share <= kMost) return std::nullopt;
  const double batch =
      static_cast<double>(f.config.train.batch_size) * share / (1 - share) * (1 - kMost) / kMost;
  return Advice{fmt::format(
      "the optimizer's matrix products are {} of the operations of a step, and their cost does not depend on "
      "the batch size; `batch_size` {} reduces this to {}, `optimizer` adamw has no matrix products",
      format_percent(share), static_cast<int64_t>(std::ceil(batch)), format_percent(kMost))};
}

}  // namespace

std::vector<Advice> run_advice(const AdviceFacts& facts) {
  std::vector<Advice> lines;
  for (const auto rule : {passes, large_batch, little_validation, warmup, short_documents, large_vocabulary,
                          long_patience, long_evaluation, long_update}) {
    if (Line line = rule(facts)) lines.push_back(std::move(*line));
  }
  return lines;
}

void check_run(const TrainConfig& config, bool has_val) {
  if (config.patience > 0 && (config.eval_every == 0 || !has_val))
    fail_usage(
        "`patience` {}: requires a validation loss, but the run evaluates nothing; set `eval_every` above 0, "
        "and `val_fraction` above 0 or `val_data`",
        config.patience);
}

}  // namespace gpt
