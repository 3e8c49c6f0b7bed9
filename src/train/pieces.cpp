#include "train/pieces.h"

#include <algorithm>

#include "kernels/ops.h"

namespace gpt {
namespace {

constexpr int64_t kBucketBlocks = 16;  // 262,144 elements, or a block for each process

}  // namespace

ElementRange common(const ElementRange& a, const ElementRange& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

Pieces::Pieces(int64_t elements, int processes)
    : elements_(elements),
      processes_(processes),
      blocks_((elements + kSumBlock - 1) / kSumBlock),
      bucket_blocks_(std::max<int64_t>(kBucketBlocks, processes)),
      buckets_((blocks_ + bucket_blocks_ - 1) / bucket_blocks_) {}

ElementRange Pieces::blocks(int64_t first, int64_t last) const {
  return {std::min(first * kSumBlock, elements_), std::min(last * kSumBlock, elements_)};
}

ElementRange Pieces::bucket(int64_t i) const {
  return blocks(i * bucket_blocks_, std::min((i + 1) * bucket_blocks_, blocks_));
}

ElementRange Pieces::piece(int64_t bucket, int rank) const {
  const int64_t first = bucket * bucket_blocks_, n = std::min(bucket_blocks_, blocks_ - first);
  return blocks(first + n * rank / processes_, first + n * (rank + 1) / processes_);
}

int64_t Pieces::largest() const {
  return std::min((bucket_blocks_ + processes_ - 1) / processes_ * kSumBlock, elements_);
}

std::vector<ElementRange> Pieces::of(int rank) const {
  std::vector<ElementRange> all;
  for (int64_t i = 0; i < buckets_; ++i)
    all.push_back(piece(i, rank));
  return all;
}

int64_t Pieces::elements_of(int rank) const {
  int64_t sum = 0;
  for (int64_t i = 0; i < buckets_; ++i)
    sum += piece(i, rank).size();
  return sum;
}

}  // namespace gpt
