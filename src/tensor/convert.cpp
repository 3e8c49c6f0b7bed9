#include "tensor/convert.h"

#include <cstring>

#include "tensor/half.h"

namespace gpt {
namespace {

template <class T>
T load(const std::byte* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

double element(const RawMatrix& m, int64_t index) {
  const std::byte* p = m.bytes.data() + static_cast<size_t>(index) * dtype_size(m.dtype);
  switch (m.dtype) {
    case DType::f32:
      return load<float>(p);
    case DType::f64:
      return load<double>(p);
    case DType::bf16:
      return to_float(load<bf16>(p));
    case DType::f16:
      return to_float(load<f16>(p));
    default:
      GPT_ASSERT(false);
      return 0;
  }
}

template <class T>
void convert(const RawMatrix& from, const TensorView& to) {
  const int64_t cols = from.transposed ? from.rows : from.cols;
  const int64_t rows = cols == 0 ? 0 : to.size() / cols;
  T* out = to.as<T>();
  if (from.dtype == to.dtype && !from.transposed) {
    const size_t row_bytes = static_cast<size_t>(cols) * sizeof(T);
    std::memcpy(out, from.bytes.data() + static_cast<size_t>(from.first_row) * row_bytes,
                static_cast<size_t>(rows) * row_bytes);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t row = from.first_row + r;
      const int64_t index = from.transposed ? c * from.cols + row : row * from.cols + c;
      out[r * cols + c] = static_cast<T>(element(from, index));
    }
  }
}

}  // namespace

bool is_float(DType t) {
  return t == DType::f32 || t == DType::f64 || t == DType::bf16 || t == DType::f16;
}

void convert_matrix(const RawMatrix& from, const TensorView& to) {
  if (to.dtype == DType::f64) {
    convert<double>(from, to);
  } else {
    GPT_ASSERT(to.dtype == DType::f32);
    convert<float>(from, to);
  }
}

void emit_matrix(const std::vector<TensorView>& parts, bool transposed,
                 const std::function<void(std::span<const std::byte>)>& emit) {
  if (!transposed) {
    for (const TensorView& part : parts) {
      emit({static_cast<const std::byte*>(part.data),
            static_cast<size_t>(part.size()) * dtype_size(part.dtype)});
    }
    return;
  }
  std::vector<float> row;
  for (int64_t c = 0; c < parts[0].cols(); ++c) {
    row.clear();
    for (const TensorView& part : parts) {
      for (int64_t r = 0; r < part.rows(); ++r)
        row.push_back(part.row<float>(r)[c]);
    }
    emit(std::as_bytes(std::span(row)));
  }
}

}  // namespace gpt
