#include "tensor/memory.h"

namespace gpt {

size_t extent(const TensorView& view) {
  if (!view || view.size() == 0) return 0;
  const int64_t lines = view.transposed ? view.cols() : view.rows(), line = view.size() / lines;
  return static_cast<size_t>(row_bytes(view.dtype, (lines - 1) * view.ld) + row_bytes(view.dtype, line));
}

MappedView::MappedView(const TensorView& view) : device_(view), host_(view) {
  if (view.memory == nullptr) return;
  bytes_ = extent(view);
  if (bytes_ > 0) host_.data = view.memory->open(view.as<std::byte>(), bytes_);
  host_.memory = nullptr;
}

MappedView::~MappedView() {
  if (bytes_ > 0) device_.memory->close(device_.as<std::byte>(), bytes_);
}

void copy_rows(const TensorView& from, const TensorView& to) {
  GPT_ASSERT(from.dtype == to.dtype && from.rows() == to.rows() && from.cols() == to.cols());
  const MappedView source(from), target(to);
  const auto bytes = static_cast<size_t>(row_bytes(from.dtype, from.cols()));
  for (int64_t r = 0; r < from.rows(); ++r)
    std::memcpy(target->slice_rows(r, 1).data, source->slice_rows(r, 1).data, bytes);
}

}  // namespace gpt
