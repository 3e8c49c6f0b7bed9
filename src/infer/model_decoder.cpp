#include "infer/model_decoder.h"

#include <algorithm>

namespace gpt {
namespace {

constexpr int64_t kRowsPerStep = 512;

int64_t capacity_for(const ModelConfig& config, int64_t longest) {
  return longest <= 0 ? config.n_ctx : std::min(config.n_ctx, longest);
}

Inference::Options inference_options(const ModelConfig& config, const ModelDecoder::Options& options) {
  const int64_t capacity = capacity_for(config, options.longest);
  return {.slots = options.slots,
          .max_rows = std::min(kRowsPerStep, std::max<int64_t>(capacity, options.slots)),
          .capacity = capacity,
          .slide = options.slide,
          .dtype = DType::f32};
}

}  // namespace

ModelDecoder::ModelDecoder(const Model& model, ThreadPool& pool, const KernelTable& kernels, Options options)
    : slide_(options.slide && model.config.position == Position::rope),
      inference_(model, pool, kernels,
                 inference_options(model.config, {options.slots, options.longest, slide_})) {}

void ModelDecoder::forward(std::span<const Append> batch, float* logits) {
  if (logits == nullptr) {
    const size_t bytes = batch.size() * static_cast<size_t>(vocab_size()) * sizeof(float);
    if (unwanted_logits_.size() < bytes) unwanted_logits_ = Buffer(bytes, "logits");
    logits = unwanted_logits_.as<float>();
  }
  appends_.clear();
  for (const Append& append : batch) appends_.push_back({append.slot, append.ids});
  inference_.append(appends_, make_view(logits, {std::ssize(batch), vocab_size()}));
}

int64_t ModelDecoder::slot_bytes(const ModelConfig& config, int64_t longest) {
  return KvCache::bytes(config, 1, capacity_for(config, longest), DType::f32);
}

}  // namespace gpt
