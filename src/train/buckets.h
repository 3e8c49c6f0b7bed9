#pragma once

#include <cstdint>
#include <vector>

#include "kernels/array_ops.h"
#include "tensor/tensor.h"

namespace gpt {

class ParamTable;

// Returns the intersection of two ranges. The result is empty if the ranges do not overlap.
ElementRange common(const ElementRange& a, const ElementRange& b);

// Splits the gradient buffer among ranks. With ZeRO it also splits the optimizer state (Rajbhandari et al.
// 2020, section 5). The buffer is split into buckets, and each bucket is split into one piece per rank. All
// boundaries are multiples of kSumBlock elements.
class Buckets {
 public:
  Buckets(int64_t elements, int processes);

  int64_t count() const { return count_; }
  ElementRange bucket(int64_t i) const;
  ElementRange shard(int64_t bucket, int rank) const;
  std::vector<ElementRange> of(int rank) const;  // the pieces of a rank, one per bucket
  int64_t elements_of(int rank) const;           // number of elements in all pieces of a rank
  int64_t largest() const;                       // number of elements in the largest piece
  int64_t in_flight() const;                     // maximum number of buckets in flight (about 16 MiB)

 private:
  ElementRange blocks(int64_t first, int64_t last) const;
  int64_t elements_, processes_, blocks_, bucket_blocks_, count_;
};

// Lists the element ranges that each rank owns. An empty shard map means that every rank has all elements.
using ShardMap = std::vector<std::vector<ElementRange>>;
ShardMap shard_evenly(int64_t elements, int processes);
// Returns a shard map for Muon. Each matrix of the layers is assigned to one rank as a whole, and the
// matrices are distributed so that all ranks have about the same work. Each other parameter is split evenly
// among the ranks if it is large; a small parameter is assigned to one rank. Each range is part of a single
// parameter.
ShardMap shard_by_matrix(const ParamTable& table, int processes);

// Returns the FLOPs of Muon's orthogonalization of a matrix X with five Newton-Schulz iterations. Each
// iteration computes one triangle of X X^T, one triangle of the square of X X^T, and a full matrix product
// with X.
double muon_flops(const Shape& shape);

}  // namespace gpt
