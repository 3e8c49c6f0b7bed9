#pragma once

// This header contains functions that all attention implementations share. These functions compute the range
// of keys that a query attends to, the row of a key, and the index of an attention weight in the dropout
// mask.

#include <algorithm>

#include "base/rng.h"
#include "kernels/cpu/op_args.h"

namespace gpt {

struct KeyRange {
  int64_t begin, end;
};

// Returns the range of keys that query i of a sequence attends to.
inline KeyRange visible_keys(const AttentionShape& shape, const AttentionSeq& seq, int64_t i) {
  const int64_t end = seq.kv_len - seq.q_len + i + 1;
  const int64_t begin = shape.window > 0 ? std::max<int64_t>(0, end - shape.window) : 0;
  return {begin, end};
}

// Returns the maximum number of keys that any query of a call attends to.
inline int64_t most_visible_keys(const AttentionShape& shape) {
  return shape.window > 0 ? std::min(shape.max_kv, shape.window) : shape.max_kv;
}

// Returns the index of the row of k and v that stores key t. pages: page tables of the call; null if keys are
// stored in consecutive rows.
inline int64_t kv_row(const AttentionShape& shape, const AttentionSeq& seq, const int32_t* pages, int64_t t) {
  if (pages == nullptr) return seq.kv_start + t;
  return int64_t{pages[seq.first_page + t / shape.page_size]} * shape.page_size + t % shape.page_size;
}

inline int64_t attention_element(const AttentionShape& shape, int64_t row, int64_t head, int64_t key) {
  return ((shape.dropout.first_row + row) * shape.n_head + head) * shape.dropout_stride + key;
}

// Computes the dropout factor of an element: 0 if the element is dropped, else 1/(1-p).
class DropoutMask {
 public:
  explicit DropoutMask(const DropoutKey& dropout)
      : DropoutMask(dropout, dropout.p > 0 ? key_of(dropout) : 0) {}

  double factor(int64_t element) const {
    if (threshold_ == 0) return 1;
    const auto e = static_cast<uint64_t>(element);
    const auto words =
        philox4x32({static_cast<uint32_t>(e >> 2), static_cast<uint32_t>(e >> 34), 0, 0}, key_);
    return words[e & 3] < threshold_ ? 0 : scale_;
  }

 private:
  DropoutMask(const DropoutKey& dropout, uint64_t key)
      : key_{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
        threshold_(static_cast<uint64_t>(dropout.p * 0x1p32)),
        scale_(1 / (1 - dropout.p)) {}

  std::array<uint32_t, 2> key_;
  uint64_t threshold_;
  double scale_;
};

}  // namespace gpt
