#include "model/planner.h"

#include <algorithm>

namespace gpt {

void Planner::reserve(TensorView& view, const char* name, Shape shape) {
  reserve(view, name, std::move(shape), shape_.dtype);
}

void Planner::reserve(TensorView& view, const char* name, Shape shape, DType dtype) {
  int64_t bytes = checked_size(shape, name);
  if (__builtin_mul_overflow(bytes, static_cast<int64_t>(dtype_size(dtype)), &bytes)) {
    fail("{}: the shape {} is too large for this machine", name, shape_string(shape));
  }
  view = make_view(nullptr, dtype, shape);
  entries_.push_back({name, std::move(shape), top_, bytes});
  views_.push_back(&view);
  if (__builtin_add_overflow(top_, (bytes + 63) / 64 * 64, &top_))
    fail("{}: too large for this machine", name);
  peak_ = std::max(peak_, top_);
}

// A matmul uses a different dtype if the matrix has no packed form or is quantized. The scratch memory must
// be sufficient for all of these dtypes.
void Planner::add_linear_scratch(int64_t rows, int64_t out, int64_t in) {
  for (const DType type : {shape_.compute, wide(), DType::f16, DType::q8_0}) {
    add_scratch(kernels_->linear_scratch(rows, out, in, type, false));
    if (is_training()) add_scratch(kernels_->linear_scratch(rows, out, in, type, true));
  }
  const int64_t rank = shape_.adapter_rank;
  for (const auto& [to, from] : {std::pair{rank, in}, std::pair{out, rank}}) {
    for (const bool backward : {false, true}) {
      if (rank > 0) add_scratch(kernels_->linear_scratch(rows, to, from, wide(), backward));
    }
  }
}

Buffer Planner::commit(const char* what, Device* device) {
  Buffer buffer(static_cast<size_t>(peak_), what, device);
  for (size_t i = 0; i < views_.size(); ++i) {
    views_[i]->data = buffer.data() + entries_[i].offset;
    views_[i]->device = buffer.view(0, DType::i8, Shape{0}).device;
  }
  return buffer;
}

}  // namespace gpt
