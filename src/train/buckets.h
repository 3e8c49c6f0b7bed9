#pragma once

#include <cstdint>
#include <vector>

#include "kernels/array_ops.h"
#include "tensor/tensor.h"

namespace gpt {

class ParamTable;

// Returns the intersection of two ranges, empty if they do not overlap.
ElementRange common(const ElementRange& a, const ElementRange& b);

// Splits the gradient buffer, and with ZeRO the optimizer state (Rajbhandari et al. 2020, section 5), among
// ranks. The buffer is cut into buckets, and each bucket into one piece for each rank. All boundaries are
// multiples of kSumBlock.
class Buckets {
 public:
  Buckets(int64_t elements, int processes);

  int64_t count() const { return count_; }
  ElementRange bucket(int64_t i) const;
  ElementRange shard(int64_t bucket, int rank) const;
  std::vector<ElementRange> of(int rank) const;  // the pieces of a rank, by bucket
  int64_t elements_of(int rank) const;           // total elements of a rank's pieces
  int64_t largest() const;                       // maximum elements of a piece
  int64_t in_flight() const;                     // maximum buckets in flight: about 16 MiB

 private:
  ElementRange blocks(int64_t first, int64_t last) const;
  int64_t elements_, processes_, blocks_, bucket_blocks_, count_;
};

// The element ranges of each rank; empty: every rank has all elements.
using ShardMap = std::vector<std::vector<ElementRange>>;
ShardMap shard_evenly(int64_t elements, int processes);
// Returns a shard map for Muon: whole matrices of the layers, with balanced work for each rank; other
// parameters in equal parts if large, else whole. Each range is part of one parameter.
ShardMap shard_by_matrix(const ParamTable& table, int processes);

// Returns the FLOPs of a Newton-Schulz iteration with five rounds. Each round computes one triangle of X X^T,
// one triangle of its square, and the full product with X.
double muon_flops(const Shape& shape);

}  // namespace gpt
