#pragma once

#include <cstdint>
#include <vector>

#include "kernels/array_ops.h"
#include "tensor/tensor.h"

namespace gpt {

class ParamTable;

// Returns the intersection of two ranges, empty if they do not overlap.
ElementRange common(const ElementRange& a, const ElementRange& b);

// How gradients, and with ZeRO what the optimizer keeps (Rajbhandari et al. 2020, section 5), are divided
// among processes: the buffer is cut into buckets, and each of these into a piece for every process, all at
// whole blocks of sums (kSumBlock).
class Buckets {
 public:
  Buckets(int64_t elements, int processes);

  int64_t count() const { return count_; }
  ElementRange bucket(int64_t i) const;
  ElementRange shard(int64_t bucket, int rank) const;
  std::vector<ElementRange> of(int rank) const;  // by bucket
  int64_t elements_of(int rank) const;           // in all its pieces
  int64_t largest() const;                       // elements that a piece can have
  int64_t in_flight() const;  // buckets that are sent before the first of them has come: about 16 MiB

 private:
  ElementRange blocks(int64_t first, int64_t last) const;
  int64_t elements_, processes_, blocks_, bucket_blocks_, count_;
};

// What each process has of the elements, by rank; none: each has all.
using ShardMap = std::vector<std::vector<ElementRange>>;
ShardMap shard_evenly(int64_t elements, int processes);
// For Muon: matrices of the blocks whole, with about as much work for each process; of the other parameters
// large ones in equal parts and small ones whole. A range lies in one parameter.
ShardMap shard_by_matrix(const ParamTable& table, int processes);

// Of a Newton-Schulz iteration with five rounds: of X X^T and its square one triangle, and a whole product of
// the square with X.
double muon_flops(const Shape& shape);

}  // namespace gpt
