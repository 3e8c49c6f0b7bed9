#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/kernel_table.h"
#include "model/param_table.h"
#include "tensor/buffer.h"

namespace gpt {

// Returns the type of the packed form that products in `compute` read of these weights, one below the other;
// nothing if the products read the weights as they are stored. in_place: weights stored in `compute` are not
// packed.
std::optional<DType> packed_dtype(const KernelTable& kernels, std::span<const TensorView> parts,
                                  DType compute, bool in_place, bool transposed);

// The packed form of the parameters `first` to `last`.
struct PackedForm {
  int first, last;
  bool transposed;
  int64_t bytes;
};
// What a model's products read.
struct PackedUse {
  DType compute = DType::f32;
  bool in_place = false;   // as in packed_dtype
  bool gradients = false;  // backward passes too
};
// Returns the packed forms that a WeightCache holds after passes of a model with these weights; empty:
// weights in fp32, in one ParamBuffer. All memory plans and claims count these.
std::vector<PackedForm> packed_forms(const ParamTable& table, std::span<const TensorView> weights,
                                     const KernelTable& kernels, const PackedUse& use);
// The parameters that products read as they are stored: those of the model without a packed form.
std::vector<int> stored_params(const ParamTable& table, std::span<const PackedForm> forms);
// The bytes of all of these forms.
int64_t packed_bytes(const ParamTable& table, std::span<const TensorView> weights, const KernelTable& kernels,
                     const PackedUse& use);

// The packed forms of a model's weight matrices. Each is made when it is first asked for, and made anew in
// the same memory when it is asked for after its weights have changed. Several threads may ask at once,
// unless the weights change.
class WeightCache {
 public:
  // The packed form of consecutive parameters from `first` on, one below the other, for products in `dtype`:
  // x w^T, or dy w when `transposed`. Absent if the kernels of ctx have none: then the plain
  // weights are used. weights: by parameter id.
  PackedMatrix get(const ExecContext& ctx, std::span<const TensorView> weights, int first, int last,
                   DType dtype, bool transposed);

  // The same in memory that the next call for another matrix, in the same direction, takes; `weights` may be
  // rows of blocks. Absent if the weights can be used as they are. For one thread at a time.
  PackedMatrix pack(const ExecContext& ctx, std::span<const TensorView> weights, int first, int last,
                    DType dtype, bool transposed);

  // Whoever changes the weights of a parameter says so.
  void weights_changed(int id);

  int64_t bytes() const { return bytes_; }  // of what is kept

 private:
  struct Entry {
    PackedMatrix matrix;
    int64_t version = -1;  // the sum of its parameters' versions
  };
  using Key = std::tuple<int, int, DType, bool, int>;
  struct TransientPack {
    Key key = {-1, -1, DType::f32, false, 0};
    Entry entry;
    Buffer memory;
  };
  std::byte* allocate(int64_t bytes, Device* device);
  int64_t version_of(int first, int last) const;

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
  // Matrices lie side by side in large pieces: only such memory gets huge pages, without which reading
  // weights once, as decoding does, is slower by a tenth and more.
  std::vector<Buffer> pieces_;
  int64_t used_ = 0;               // of the last piece
  std::vector<int64_t> versions_;  // by parameter id; 0 beyond its end
  int64_t bytes_ = 0;
  TransientPack passing_[2];  // by `transposed`
};

}  // namespace gpt
