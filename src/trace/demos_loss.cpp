// Cross-entropy on a batch small enough to be read.

#include <fmt/format.h>

#include <cmath>

#include "base/format.h"
#include "report/table.h"
#include "trace/demos.h"
#include "trace/torch_random.h"

namespace gpt::detail {
namespace {

constexpr int64_t kBatch = 2, kTokens = 5, kVocab = 10, kRows = kBatch * kTokens;
constexpr int32_t kTargets[kRows] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3};

// Mean over the targets that count, by the op that training uses.
double mean_loss(const DemoContext& context, std::vector<double> logits, std::span<const int32_t> targets) {
  const auto rows = static_cast<int64_t>(targets.size()), columns = std::ssize(logits) / rows;
  const KernelTable& reference = kernel_table(Isa::ref);
  const ExecContext ctx{context.backend.pool, reference, {}};
  std::vector<double> losses(targets.size());
  reference.cross_entropy(ctx, {.logits = make_view(logits.data(), {rows, columns}),
                                .targets = targets.data(),
                                .losses = losses.data()});
  double sum = 0;
  int64_t count = 0;
  for (size_t n = 0; n < targets.size(); ++n) {
    if (targets[n] < 0) continue;
    sum += losses[n];
    ++count;
  }
  return sum / static_cast<double>(count);
}

// Logits that are `height` at the target and 0 elsewhere.
std::vector<double> peaked(double height) {
  std::vector<double> logits(kRows * kVocab);
  for (int64_t n = 0; n < kRows; ++n)
    logits[static_cast<size_t>(n * kVocab + kTargets[n])] = height;
  return logits;
}

std::vector<double> random_logits(double scale) {
  std::vector<float> drawn(kRows * kVocab);
  TorchRandom(42).normal(drawn);
  std::vector<double> logits(drawn.begin(), drawn.end());
  for (double& x : logits)
    x *= scale;
  return logits;
}

}  // namespace

std::string demo_loss(const DemoContext& context) {
  std::string out = fmt::format(
      "logits [{0},{1},{2}] and targets [{0},{1}] are flattened to ({3},{2}) and ({3}): every position is a "
      "question.\n"
      "The loss is the mean of -ln softmax(logits)[target]; perplexity is e^loss.\n\n",
      kBatch, kTokens, kVocab, kRows);
  TextTable table{.columns = {"logits", "loss", "perplexity"}};
  const auto add = [&](const char* name, double loss) {
    table.rows.push_back({name, fmt::format("{:.4f}", loss), fmt::format("{:.2f}", std::exp(loss))});
  };
  add("all equal: a guess, ln 10", mean_loss(context, peaked(0), kTargets));
  add("0.02 randn: a model before training", mean_loss(context, random_logits(0.02), kTargets));
  add("randn: sure of the wrong ones", mean_loss(context, random_logits(1), kTargets));
  add("3 at the target", mean_loss(context, peaked(3), kTargets));
  add("100 at the target: perfect", mean_loss(context, peaked(100), kTargets));
  int32_t half[kRows];
  for (int64_t n = 0; n < kRows; ++n)
    half[n] = n < kTokens ? kTargets[n] : -1;
  add("3 at the target, the second text ignored (-1)", mean_loss(context, peaked(3), half));
  constexpr int64_t kWords = 50257;
  const int32_t word = 0;
  add("all equal, 50,257 words: ln 50257", mean_loss(context, std::vector<double>(kWords), {&word, 1}));
  return out + format_table(table);
}

}  // namespace gpt::detail
