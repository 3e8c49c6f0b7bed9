#include "train/documents.h"

#include <algorithm>

namespace gpt {

void PackedDocuments::mark(int32_t end, std::span<const int32_t> ids, std::span<int32_t> targets,
                           std::span<uint8_t> starts) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != end) continue;
    targets[i] = -1;
    if (i + 1 < starts.size()) starts[i + 1] = 1;
  }
}

void PackedDocuments::split(int64_t n_ctx, std::span<const uint8_t> starts, TrainBatch& batch) {
  if (std::find(starts.begin(), starts.end(), 1) == starts.end()) return;
  seqs_.clear();
  positions_.clear();
  for (int64_t begin = 0; begin < std::ssize(starts);) {
    const auto window_end = starts.begin() + (begin / n_ctx + 1) * n_ctx;
    const int64_t n = std::find(starts.begin() + begin + 1, window_end, 1) - starts.begin() - begin;
    seqs_.push_back({.q_start = begin, .q_len = n, .kv_len = n, .kv_start = begin});
    for (int64_t t = 0; t < n; ++t)
      positions_.push_back(static_cast<int32_t>(t));
    begin += n;
  }
  batch.positions = positions_.data();
  batch.seqs = seqs_;
}

}  // namespace gpt
