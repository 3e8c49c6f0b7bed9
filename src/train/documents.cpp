#include "train/documents.h"

#include <algorithm>

namespace gpt {

void PackedDocuments::mask_targets(int32_t end, std::span<const int32_t> ids, std::span<int32_t> targets) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == end) targets[i] = -1;
  }
}

void PackedDocuments::split(int64_t n_ctx, int32_t end, std::span<const int32_t> ids, TrainBatch& batch) {
  seqs_.clear();
  positions_.clear();
  const int64_t rows = std::ssize(ids);
  for (int64_t begin = 0; begin < rows;) {
    const auto window_end = ids.begin() + (begin / n_ctx + 1) * n_ctx;
    const auto last = std::find(ids.begin() + begin, window_end, end);
    const int64_t n = (last == window_end ? window_end : last + 1) - ids.begin() - begin;
    seqs_.push_back({.q_start = begin, .q_len = n, .kv_len = n, .kv_start = begin});
    for (int64_t t = 0; t < n; ++t)
      positions_.push_back(static_cast<int32_t>(t));
    begin += n;
  }
  batch.positions = positions_.data();
  batch.seqs = seqs_;
}

}  // namespace gpt
