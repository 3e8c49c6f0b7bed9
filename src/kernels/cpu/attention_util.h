#pragma once

// What every attention implementation shares: which keys a query sees, where a key lives, and which
// element of the dropout mask belongs to a weight.

#include <algorithm>

#include "base/rng.h"
#include "kernels/ops.h"

namespace gpt {

struct KeyRange {
  int64_t begin, end;
};

// The keys that query i of a sequence sees.
inline KeyRange visible_keys(const AttentionShape& shape, const AttentionSeq& seq, int64_t i) {
  const int64_t end = seq.kv_len - seq.q_len + i + 1;
  const int64_t begin = shape.window > 0 ? std::max<int64_t>(0, end - shape.window) : 0;
  return {begin, end};
}

// Of the sequences of a call: the most queries of one, and the most keys that a query sees.
struct LongestSeq {
  int64_t q = 0, kv = 0;
};
inline LongestSeq longest_of(const AttentionShape& shape, std::span<const AttentionSeq> seqs) {
  LongestSeq longest;
  for (const AttentionSeq& seq : seqs) {
    longest.q = std::max(longest.q, seq.q_len);
    longest.kv = std::max(longest.kv, shape.window > 0 ? std::min(seq.kv_len, shape.window) : seq.kv_len);
  }
  return longest;
}

inline int64_t kv_row(const AttentionShape& shape, const AttentionSeq& seq, int64_t t) {
  if (seq.blocks == nullptr) return seq.kv_start + t;
  return int64_t{seq.blocks[t / shape.block_size]} * shape.block_size + t % shape.block_size;
}

inline int64_t attention_element(const AttentionShape& shape, int64_t row, int64_t head, int64_t key) {
  return ((shape.dropout.first_row + row) * shape.n_head + head) * shape.dropout_stride + key;
}

// The factor of an element: 0 when dropped, else 1/(1-p).
class DropoutMask {
 public:
  explicit DropoutMask(const DropoutKey& dropout)
      : key_{static_cast<uint32_t>(dropout.key), static_cast<uint32_t>(dropout.key >> 32)},
        threshold_(static_cast<uint64_t>(dropout.p * 0x1p32)),
        scale_(1 / (1 - dropout.p)) {}

  double factor(int64_t element) const {
    if (threshold_ == 0) return 1;
    const auto e = static_cast<uint64_t>(element);
    const auto words =
        philox4x32({static_cast<uint32_t>(e >> 2), static_cast<uint32_t>(e >> 34), 0, 0}, key_);
    return words[e & 3] < threshold_ ? 0 : scale_;
  }

 private:
  std::array<uint32_t, 2> key_;
  uint64_t threshold_;
  double scale_;
};

}  // namespace gpt
