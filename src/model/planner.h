#pragma once

#include <string>
#include <vector>

#include "tensor/buffer.h"
#include "tensor/tensor.h"

namespace gpt {

// Lays out all memory of a pass before its first step. Regions are reserved in order, like a stack:
// what is reserved after a rewind shares memory with what was reserved since the mark.
class Planner {
 public:
  explicit Planner(DType dtype) : dtype_(dtype) {}

  // What is meant by no other type is an activation and has the planner's; the residual stream, statistics
  // and logits are wide: fp32, or fp64 when that is the planner's type.
  DType wide() const { return dtype_ == DType::f64 ? DType::f64 : DType::f32; }

  // Reserves 64-byte aligned memory for a view, which becomes valid with `commit`. `view` must outlive it.
  void reserve(TensorView& view, const char* name, Shape shape);
  void reserve(TensorView& view, const char* name, Shape shape, DType dtype);

  int64_t mark() const { return top_; }
  void rewind(int64_t mark) { top_ = mark; }

  // Allocates the arena and sets every view.
  Buffer commit(const char* what);
  int64_t bytes() const { return peak_; }

  struct Entry {
    std::string name;
    Shape shape;
    int64_t offset;
    int64_t bytes;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  DType dtype_;
  int64_t top_ = 0;
  int64_t peak_ = 0;
  std::vector<Entry> entries_;
  std::vector<TensorView*> views_;
};

}  // namespace gpt
