#include "tensor/tensor.h"

namespace gpt {

int64_t checked_size(std::span<const int64_t> shape, const std::string& what) {
  int64_t n = 1;
  for (int64_t d : shape) {
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) {
      fail("{}: invalid shape {}", what, shape_string(shape));
    }
  }
  return n;
}

std::string shape_string(std::span<const int64_t> shape) {
  std::string s = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    s.append(i ? "," : "").append(std::to_string(shape[i]));
  return s + "]";
}

TensorView TensorView::slice_cols(int64_t from, int64_t n) const {
  TensorView v = *this;
  v.data = static_cast<char*>(data) + from * static_cast<int64_t>(dtype_size(dtype));
  v.rank = 2;
  v.shape[0] = rows();
  v.shape[1] = n;
  return v;
}

TensorView TensorView::slice_flat(int64_t from, int64_t n) const {
  return make_view(static_cast<char*>(data) + row_bytes(dtype, from), dtype, {n}, device);
}

TensorView TensorView::slice_rows(int64_t from, int64_t n) const {
  TensorView v = *this;
  v.data = static_cast<char*>(data) + row_bytes(dtype, transposed ? from : from * ld);
  v.rank = 2;
  v.shape[0] = n;
  v.shape[1] = cols();
  return v;
}

TensorView make_view(void* data, DType dtype, std::span<const int64_t> shape, Device* device) {
  GPT_ASSERT(shape.size() <= 4);
  TensorView v;
  v.data = data;
  v.dtype = dtype;
  v.device = device;
  v.rank = static_cast<int>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i)
    v.shape[i] = shape[i];
  v.ld = v.cols();
  return v;
}

TensorView make_view(void* data, DType dtype, std::initializer_list<int64_t> shape, Device* device) {
  return make_view(data, dtype, std::span<const int64_t>(shape.begin(), shape.size()), device);
}

}  // namespace gpt
