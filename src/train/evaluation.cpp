#include "train/evaluation.h"

#include "data/eval_windows.h"

namespace gpt {

Evaluator::Evaluator(const Model& model, const RunData& data, const TrainConfig& config, int threads)
    : data_(data),
      config_(config),
      n_ctx_(model.config.n_ctx),
      graph_(model, config.micro_batch, n_ctx_, {.gradients = false, .dtype = tensor_dtype(config.dtype)},
             threads),
      ids_(static_cast<size_t>(config.micro_batch * n_ctx_)),
      targets_(ids_.size()) {}

std::optional<EvalLosses> Evaluator::losses(ThreadPool& pool, const KernelTable& kernels,
                                            const std::function<bool()>& interrupted) {
  const auto val = loss_of(data_.val, pool, kernels, interrupted);
  if (!val) return std::nullopt;
  EvalLosses losses{.val = *val, .train = {}};
  if (!config_.eval_train) return losses;
  losses.train = loss_of(data_.train, pool, kernels, interrupted);
  if (!losses.train) return std::nullopt;
  return losses;
}

std::optional<double> Evaluator::loss_of(const TokenSpan& text, ThreadPool& pool, const KernelTable& kernels,
                                         const std::function<bool()>& interrupted) {
  const EvalBatches batches(text, n_ctx_, static_cast<uint64_t>(config_.seed), config_.eval_batches,
                            config_.batch_size);
  double sum = 0;
  for (int64_t b = 0; b < batches.batches(); ++b) {
    if (interrupted()) return std::nullopt;
    for (int64_t first = 0; first < batches.batch_size(); first += config_.micro_batch) {
      batches.fill(b, first, config_.micro_batch, ids_.data(), targets_.data());
      sum += graph_.loss(pool, kernels, {.ids = ids_.data(), .targets = targets_.data()});
    }
  }
  return sum / static_cast<double>(batches.batches() * batches.batch_size() * n_ctx_);
}

}  // namespace gpt
