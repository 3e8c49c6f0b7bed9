#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace gpt {

// What a pass through the layers is for, and so what they keep of it.
enum class PassMode : uint8_t {
  inference,  // logits of some rows
  loss,       // losses of all rows
  training    // these and gradients: what the backward pass reads has its own memory
};

// The largest call that memory is planned for.
struct PassShape {
  PassMode mode = PassMode::inference;
  int64_t rows = 0;            // tokens of all sequences
  int64_t max_q = 0;           // tokens of one sequence
  int64_t max_kv = 0;          // and its keys
  DType dtype = DType::f32;    // of activations
  DType compute = DType::f32;  // of products with weights
  int64_t adapter_rank = 0;    // the largest of any adapter; 0: there are none
  bool adapter_dropout = false;
};

// Lays out all memory of a pass before its first step: every layer says what it keeps and what scratch memory
// its ops need. Regions are reserved in order, like a stack: what is reserved after a rewind shares memory
// with what was reserved since the mark.
class Planner {
 public:
  // For a pass that runs with these kernels.
  Planner(const PassShape& shape, const KernelTable& kernels) : shape_(shape), kernels_(&kernels) {}

  const PassShape& shape() const { return shape_; }
  const KernelTable& kernels() const { return *kernels_; }
  int64_t rows() const { return shape_.rows; }
  bool is_training() const { return shape_.mode == PassMode::training; }
  // What is meant by no other type is an activation and has the shape's; the residual stream, statistics and
  // logits are wide: fp32, or fp64 when that is the shape's type.
  DType wide() const { return shape_.dtype == DType::f64 ? DType::f64 : DType::f32; }

  // Reserves 64-byte aligned memory for a view, which becomes valid with `commit`. `view` must outlive it.
  void reserve(TensorView& view, const char* name, Shape shape);
  void reserve(TensorView& view, const char* name, Shape shape, DType dtype);

  int64_t mark() const { return top_; }
  void rewind(int64_t mark) { top_ = mark; }
  // reserve(i) for each i below n, all in the same memory.
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

  // An op of the pass needs this much; one region serves all, one after the other.
  void add_scratch(ScratchNeed need) { scratch_ = max_need(scratch_, need); }
  // For products of `rows` rows with a matrix [out,in], in training backwards too.
  void add_linear_scratch(int64_t rows, int64_t out, int64_t in);
  ScratchNeed scratch() const { return scratch_; }

  // Allocates the arena and sets every view.
  Buffer commit(const char* what, Device* device);
  int64_t bytes() const { return peak_; }  // without scratch

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
