#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace gpt {

// The purpose of a pass through the layers. The purpose determines which activations the layers keep.
enum class PassMode : uint8_t {
  inference,  // computes logits of some rows
  loss,       // computes losses of all rows
  training    // computes losses and gradients; activations for the backward pass are kept
};

// The size of the largest pass that the planned memory supports.
struct PassShape {
  PassMode mode = PassMode::inference;
  int64_t rows = 0;            // total tokens of all sequences
  int64_t max_q = 0;           // maximum tokens of one sequence
  int64_t max_kv = 0;          // maximum keys of one sequence
  DType dtype = DType::f32;    // dtype of activations
  DType compute = DType::f32;  // dtype of matmuls with weights
  int64_t adapter_rank = 0;    // largest rank of any adapter; 0: no adapters
  bool adapter_dropout = false;
};

// Plans the memory of a pass before the pass runs. Every layer reserves memory for its activations and
// declares the scratch memory of its ops. Regions are reserved in order, as on a stack. After a rewind to a
// mark, new regions share memory with the regions that were reserved after the mark.
class Planner {
 public:
  // Plans a pass that runs with these kernels.
  Planner(const PassShape& shape, const KernelTable& kernels) : shape_(shape), kernels_(&kernels) {}

  const PassShape& shape() const { return shape_; }
  const KernelTable& kernels() const { return *kernels_; }
  int64_t rows() const { return shape_.rows; }
  bool is_training() const { return shape_.mode == PassMode::training; }
  // Returns the dtype of the residual stream, statistics and logits: fp32, or fp64 if activations are fp64.
  // All other tensors have the dtype of activations, unless they are reserved with a different dtype.
  DType wide() const { return shape_.dtype == DType::f64 ? DType::f64 : DType::f32; }

  // Reserves 64-byte aligned memory for a view. `commit` sets the view, so the view must live until then.
  void reserve(TensorView& view, const char* name, Shape shape);
  void reserve(TensorView& view, const char* name, Shape shape, DType dtype);

  int64_t mark() const { return top_; }
  void rewind(int64_t mark) { top_ = mark; }
  // Calls reserve(i) for each i below n. All of these regions share the same memory.
  template <class F>
  void reserve_alternatives(size_t n, F&& reserve) {
    const int64_t begin = top_;
    int64_t end = begin;
    for (size_t i = 0; i < n; ++i) {
      top_ = begin;
      reserve(i);
      end = std::max(end, top_);
    }
    top_ = end;
  }

  // Declares the scratch memory of an op. All ops of the pass use the same scratch region, one after the
  // other.
  void add_scratch(ScratchNeed need) { scratch_ = max_need(scratch_, need); }
  // Declares the scratch memory for matmuls of `rows` rows with a matrix [out,in]. In training, this includes
  // the backward pass.
  void add_linear_scratch(int64_t rows, int64_t out, int64_t in);
  ScratchNeed scratch() const { return scratch_; }

  // Allocates the arena and sets all reserved views.
  Buffer commit(const char* what, Device* device);
  int64_t bytes() const { return peak_; }  // excluding scratch memory

  struct Entry {
    std::string name;
    Shape shape;
    int64_t offset;
    int64_t bytes;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  PassShape shape_;
  const KernelTable* kernels_;
  int64_t top_ = 0;
  int64_t peak_ = 0;
  ScratchNeed scratch_;
  std::vector<Entry> entries_;
  std::vector<TensorView*> views_;
};

}  // namespace gpt
