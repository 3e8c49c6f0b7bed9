#include "infer/cached_model.h"

namespace gpt {

void CachedModel::forward(std::span<const Append> batch, float* logits) {
  batch_.clear();
  for (const Append& append : batch)
    batch_.push_back({append.slot, append.ids});
  const auto rows = static_cast<int64_t>(batch.size());
  if (!logits) {
    unwanted_.resize(batch.size() * static_cast<size_t>(vocab_size()));
    logits = unwanted_.data();
  }
  inference_.append(batch_, make_view(logits, {rows, vocab_size()}));
}

}  // namespace gpt
