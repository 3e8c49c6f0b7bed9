#include "infer/model_decoder.h"

namespace gpt {

ModelDecoder::ModelDecoder(const Model& model, ThreadPool& pool, const KernelTable& kernels, Inference::Options options)
    : inference_(model, pool, kernels, options), slide_(options.slide) {}

void ModelDecoder::forward(std::span<const Append> batch, float* logits) {
  const auto rows = static_cast<int64_t>(batch.size());
  if (logits == nullptr) {
    unwanted_.resize(batch.size() * static_cast<size_t>(vocab_size()));
    logits = unwanted_.data();
  }
  std::vector<Inference::Append> appends;
  for (const Append& append : batch) appends.push_back({append.slot, append.ids});
  inference_.append(appends, make_view(logits, {rows, vocab_size()}));
}

}  // namespace gpt
