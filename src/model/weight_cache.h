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

// Returns the dtype of the packed form that matmuls in dtype `compute` read. The packed form contains the
// weights `parts`, stacked by rows. Returns nothing if the matmuls read the weights as stored. in_place:
// weights that are stored in dtype `compute` are not packed.
std::optional<DType> packed_dtype(const KernelTable& kernels, std::span<const TensorView> parts,
                                  DType compute, bool in_place, bool transposed);

// The packed form of the parameters `first` to `last`, stacked by rows.
struct PackedForm {
  int first, last;
  bool transposed;
  int64_t bytes;
};
// Properties of matmuls that determine which packed forms a model needs.
struct PackedUse {
  DType compute = DType::f32;
  bool in_place = false;   // see packed_dtype
  bool gradients = false;  // true if backward passes also run
};
// Returns the packed forms that a WeightCache holds after passes of a model with these weights. If `weights`
// is empty, the weights are fp32 in one ParamBuffer. All memory estimates and memory claims include these
// forms.
std::vector<PackedForm> packed_forms(const ParamTable& table, std::span<const TensorView> weights,
                                     const KernelTable& kernels, const PackedUse& use);
// Returns the ids of the model parameters without a packed form, except lookup tables. Ops read these
// parameters as stored.
std::vector<int> stored_params(const ParamTable& table, std::span<const PackedForm> forms);
// Returns the total size of all packed forms in bytes.
int64_t packed_bytes(const ParamTable& table, std::span<const TensorView> weights, const KernelTable& kernels,
                     const PackedUse& use);

// A cache of the packed forms of a model's weight matrices. A packed form is created on its first use. If the
// weights change later, the next use of the packed form packs the weights again into the same memory. Several
// threads may use the cache concurrently, as long as no thread changes the weights.
class WeightCache {
 public:
  // Returns the packed form of the parameters `first` to `last`, stacked by rows, for matmuls in `dtype`: x
  // w^T, or dy w if `transposed`. Returns an absent matrix if the kernels of ctx have no packed form. Matmuls
  // then read the stored weights. weights: indexed by parameter id.
  PackedMatrix get(const ExecContext& ctx, std::span<const TensorView> weights, int first, int last,
                   DType dtype, bool transposed);

  // Like `get`, but returns a matrix in temporary memory. The next call for a different matrix with the same
  // `transposed` overwrites this memory. `weights` may be quantized. Returns an absent matrix if matmuls can
  // read the stored weights. Only one thread may call this function at a time.
  PackedMatrix pack(const ExecContext& ctx, std::span<const TensorView> weights, int first, int last,
                    DType dtype, bool transposed);

  // Must be called after the weights of a parameter have changed.
  void weights_changed(int id);

  int64_t bytes() const { return bytes_; }  // total bytes of the packed forms that are kept

 private:
  struct Entry {
    PackedMatrix matrix;
    int64_t version = -1;  // sum of the versions of its parameters
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
  // Packed matrices are stored next to each other in large allocations, because only large allocations get
  // huge pages. Without huge pages, reading all weights once (one decoding step) is at least 10% slower.
  std::vector<Buffer> pieces_;
  int64_t used_ = 0;               // used bytes of the last piece
  std::vector<int64_t> versions_;  // version by parameter id; 0 for ids beyond the end
  int64_t bytes_ = 0;
  TransientPack passing_[2];  // indexed by `transposed`
};

}  // namespace gpt
