#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/kernel_table.h"
#include "tensor/buffer.h"

namespace gpt {

// The packed forms of a model's weight matrices. Each is made when it is first asked for, and made anew in
// the same memory when it is asked for after the weights have changed. Not for several threads at once.
class WeightCache {
 public:
  // The packed form of consecutive parameters from `first` on, one below the other, for products in `dtype`:
  // x w^T, or dy w when `transposed`. Null where the instruction set of ctx has none, so that the plain
  // weights are used. weights: by parameter id.
  const PackedMatrix* get(const ExecContext& ctx, std::span<const TensorView> weights, int first, int last,
                          DType dtype, bool transposed);

  // Whoever changes the weights says so.
  void weights_changed() { ++version_; }

  int64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    PackedMatrix matrix;
    int64_t version = -1;
  };
  using Key = std::tuple<int, int, DType, bool, Isa>;
  std::byte* allocate(int64_t bytes);

  std::map<Key, Entry> entries_;
  // Matrices lie side by side in large pieces: only such memory gets huge pages, without which reading
  // weights once, as decoding does, is slower by a tenth and more.
  std::vector<Buffer> pieces_;
  int64_t used_ = 0;  // of the last piece
  int64_t version_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace gpt
