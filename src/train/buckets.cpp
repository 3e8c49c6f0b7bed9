#include "train/buckets.h"

#include <algorithm>
#include <numeric>

#include "kernels/ops.h"
#include "model/params.h"
#include "train/param_groups.h"

namespace gpt {
namespace {

constexpr int64_t kBucketBlocks = 16;  // 262,144 elements
constexpr int64_t kPieceBlocks = 4;    // 65,536 elements; shorter messages are dominated by latency
constexpr int64_t kBuckets = 16;       // number of buckets for the gradients of a large model

// Returns the size of a bucket in blocks. With more than four ranks, buckets grow with the number of ranks if
// the model is large enough. A rank then sends as many messages with 1,000 ranks as with 4.
int64_t blocks_of_bucket(int64_t blocks, int processes) {
  const int64_t least = std::max<int64_t>(kBucketBlocks, processes);
  return std::clamp(blocks / kBuckets, least, std::max(least, kPieceBlocks * processes));
}

}  // namespace

ElementRange common(const ElementRange& a, const ElementRange& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

Buckets::Buckets(int64_t elements, int processes)
    : elements_(elements),
      processes_(processes),
      blocks_((elements + kSumBlock - 1) / kSumBlock),
      bucket_blocks_(blocks_of_bucket(blocks_, processes)),
      count_((blocks_ + bucket_blocks_ - 1) / bucket_blocks_) {}

ElementRange Buckets::blocks(int64_t first, int64_t last) const {
  return {std::min(first * kSumBlock, elements_), std::min(last * kSumBlock, elements_)};
}

ElementRange Buckets::bucket(int64_t i) const {
  return blocks(i * bucket_blocks_, std::min((i + 1) * bucket_blocks_, blocks_));
}

ElementRange Buckets::shard(int64_t bucket, int rank) const {
  const int64_t first = bucket * bucket_blocks_, n = std::min(bucket_blocks_, blocks_ - first);
  return blocks(first + n * rank / processes_, first + n * (rank + 1) / processes_);
}

int64_t Buckets::in_flight() const {
  constexpr int64_t kLeast = 2, kMost = 16;
  return std::clamp(kMost * kBucketBlocks / bucket_blocks_, kLeast, kMost);
}

int64_t Buckets::largest() const {
  return std::min((bucket_blocks_ + processes_ - 1) / processes_ * kSumBlock, elements_);
}

std::vector<ElementRange> Buckets::of(int rank) const {
  std::vector<ElementRange> all;
  for (int64_t i = 0; i < count_; ++i)
    all.push_back(shard(i, rank));
  return all;
}

int64_t Buckets::elements_of(int rank) const {
  int64_t sum = 0;
  for (int64_t i = 0; i < count_; ++i)
    sum += shard(i, rank).size();
  return sum;
}

ShardMap shard_evenly(int64_t elements, int processes) {
  ShardMap parts;
  for (int rank = 0; rank < processes; ++rank)
    parts.push_back(Buckets(elements, processes).of(rank));
  return parts;
}

double muon_flops(const Shape& shape) {
  constexpr double kIterations = 5;
  const auto [m, n] = std::minmax({static_cast<double>(shape[0]), static_cast<double>(shape[1])});
  return kIterations * (m * m * n + m * m * m + 2 * m * m * n);
}

namespace {

// Assigns the matrices to ranks in order of decreasing work. Each matrix is assigned to the rank with the
// least work so far.
void deal_matrices(const ParamTable& table, const ParamLayout& layout, std::vector<int> ids,
                   ShardMap& parts) {
  const auto work = [&](int id) { return muon_flops(table[id].shape); };
  std::ranges::stable_sort(ids, std::greater<>(), work);
  std::vector<double> load(parts.size());
  for (const int id : ids) {
    const auto least = static_cast<size_t>(std::ranges::min_element(load) - load.begin());
    const int64_t at = layout.offset[static_cast<size_t>(id)];
    parts[least].push_back({at, at + table[id].size()});
    load[least] += work(id);
  }
}

// Splits a range into equal parts, one for each rank. Each part starts at a multiple of 16 elements (a cache
// line).
void cut(const ElementRange& whole, ShardMap& parts) {
  constexpr int64_t kLine = 16;
  const auto n = std::ssize(parts);
  const auto bound = [&](int64_t i) {
    return i == n ? whole.end : whole.begin + whole.size() * i / n / kLine * kLine;
  };
  for (int64_t i = 0; i < n; ++i)
    parts[static_cast<size_t>(i)].push_back({bound(i), bound(i + 1)});
}

}  // namespace

ShardMap shard_by_matrix(const ParamTable& table, int processes) {
  constexpr int64_t kLarge = int64_t{1} << 16;
  const ParamLayout layout(table);
  ShardMap parts(static_cast<size_t>(processes), {{0, 0}});  // a rank without parameters has one empty range
  std::vector<int> matrices;
  size_t next = 0;
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    const int64_t at = layout.offset[static_cast<size_t>(id)];
    const ElementRange whole{at, at + table[id].size()};
    if (param_group(table, id) == ParamGroup::matrix) {
      matrices.push_back(id);
    } else if (whole.size() >= kLarge) {
      cut(whole, parts);
    } else {
      parts[next++ % parts.size()].push_back(whole);
    }
  }
  deal_matrices(table, layout, matrices, parts);
  for (std::vector<ElementRange>& ranges : parts)
    std::ranges::sort(ranges, {},
                      [](const ElementRange& range) { return std::pair(range.begin, range.end); });
  return parts;
}

}  // namespace gpt
