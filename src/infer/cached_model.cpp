#include "infer/cached_model.h"

namespace gpt {

void CachedModel::forward(std::span<const Append> batch, float* logits) {
  batch_.clear();
  int64_t rows = 0;
  for (const Append& append : batch) {
    batch_.push_back({append.slot, append.ids, append.wanted});
    rows += append.wanted;
  }
  inference_.append(batch_, make_view(logits, {rows, vocab_size()}));
}

SequenceModel::Prospect CachedModel::prospect(std::span<const int32_t> ids) const {
  const auto [known, blocks] = inference_.prospect(ids);
  return {known, blocks};
}

}  // namespace gpt
