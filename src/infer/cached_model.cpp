#include "infer/cached_model.h"

namespace gpt {

void CachedModel::forward(std::span<const Append> batch, const TensorView& logits) {
  batch_.clear();
  for (const Append& append : batch)
    batch_.push_back({append.slot, append.ids, append.wanted});
  inference_.append(batch_, logits);
}

SequenceModel::Prospect CachedModel::prospect(std::span<const int32_t> ids) const {
  const auto [known, blocks] = inference_.prospect(ids);
  return {known, blocks};
}

}  // namespace gpt
