#include "tensor/convert.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/ranges.h"
#include "tensor/device.h"
#include "tensor/half.h"

namespace gpt {
namespace {

// Number of rows or columns that are transposed together: 32 elements of 2 bytes fill one 64-byte cache line.
constexpr int64_t kBlock = 32;

// Calls fn(T{}), where T is the C++ element type of a floating-point dtype.
template <class F>
void with_float_type(DType dtype, F&& fn) {
  switch (dtype) {
    case DType::f32:
      return fn(float{});
    case DType::f64:
      return fn(double{});
    case DType::bf16:
      return fn(bf16{});
    case DType::f16:
      return fn(f16{});
    default:
      GPT_ASSERT(false);
  }
}

// Reads the element at an index of an array whose address may be unaligned.
template <class T>
T load(const std::byte* p, int64_t index) {
  T x;
  std::memcpy(&x, p + static_cast<size_t>(index) * sizeof x, sizeof x);
  return x;
}

template <class To, class From>
To convert_number(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<From, double>) {
    return from_float<To>(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, double>) {
    return to_float(x);
  } else {
    return from_float<To>(to_float(x));
  }
}

template <class From, class To>
void convert(const RawMatrix& from, const TensorView& to) {
  const std::byte* in = from.bytes.data();
  const int64_t cols = from.transposed ? from.rows : from.cols;
  const int64_t rows = cols == 0 ? 0 : to.size() / cols;
  To* out = to.as<To>();
  if (!from.transposed) {
    in += static_cast<size_t>(from.first_row * cols) * sizeof(From);
    if constexpr (std::is_same_v<From, To>) {
      if (rows > 0) std::memcpy(out, in, static_cast<size_t>(rows * cols) * sizeof(To));
    } else {
      for (int64_t i = 0; i < rows * cols; ++i)
        out[i] = convert_number<To>(load<From>(in, i));
    }
    return;
  }
  for (int64_t first = 0; first < rows; first += kBlock) {
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = first; r < std::min(rows, first + kBlock); ++r)
        out[r * cols + c] = convert_number<To>(load<From>(in, c * from.cols + from.first_row + r));
    }
  }
}

template <class From, class To>
void emit_rows(const TensorView& part, const std::function<void(std::span<const std::byte>)>& emit) {
  std::vector<To> buffer;
  for (int64_t r = 0; r < part.rows(); ++r) {
    const From* row = part.row<From>(r);
    buffer.clear();
    std::transform(row, row + part.cols(), std::back_inserter(buffer), convert_number<To, From>);
    emit(std::as_bytes(std::span(buffer)));
  }
}

template <class To>
void emit_columns(const std::vector<TensorView>& parts,
                  const std::function<void(std::span<const std::byte>)>& emit) {
  const int64_t cols = parts[0].cols();
  const int64_t height = sum_of(parts, &TensorView::rows);
  std::vector<To> block(static_cast<size_t>(kBlock * height));  // [kBlock, height]
  for (int64_t first = 0; first < cols; first += kBlock) {
    const int64_t n = std::min(kBlock, cols - first);
    int64_t at = 0;
    for (const TensorView& part : parts) {
      with_float_type(part.dtype, [&]<class From>(From) {
        for (int64_t r = 0; r < part.rows(); ++r, ++at) {
          for (int64_t c = 0; c < n; ++c)
            block[static_cast<size_t>(c * height + at)] = convert_number<To>(part.row<From>(r)[first + c]);
        }
      });
    }
    emit(std::as_bytes(std::span(block).first(static_cast<size_t>(n * height))));
  }
}

}  // namespace

bool is_float(DType t) {
  return t == DType::f32 || t == DType::f64 || t == DType::bf16 || t == DType::f16;
}

void convert_matrix(const RawMatrix& from, const TensorView& view) {
  const MappedView to(view, Access::write);
  with_float_type(from.dtype, [&]<class From>(From) {
    with_float_type(to->dtype, [&]<class To>(To) { convert<From, To>(from, *to); });
  });
}

void emit_matrix(std::vector<TensorView> parts, bool transposed, DType as,
                 const std::function<void(std::span<const std::byte>)>& emit) {
  std::deque<MappedView> access;
  for (TensorView& part : parts)
    part = *access.emplace_back(part, Access::read);
  with_float_type(as, [&]<class To>(To) {
    if (transposed) return emit_columns<To>(parts, emit);
    for (const TensorView& part : parts) {
      if (part.dtype == as && part.dense()) {
        emit({part.as<const std::byte>(), static_cast<size_t>(part.size()) * dtype_size(as)});
      } else {
        with_float_type(part.dtype, [&]<class From>(From) { emit_rows<From, To>(part, emit); });
      }
    }
  });
}

}  // namespace gpt
