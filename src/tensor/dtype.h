#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpt {

// From q8_0 on these are ggml's block formats (kernels/quant.h): their elements have no address of their own.
enum class DType : uint8_t {
  f32,
  f64,
  bf16,
  f16,
  i64,
  i32,
  i8,
  u8,
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k
};

// Bytes per element; 0 for block formats.
constexpr size_t dtype_size(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::i8:
    case DType::u8:
      return 1;
    default:
      return 0;
  }
}

constexpr bool is_quantized(DType t) {
  return t >= DType::q8_0;
}

// Whether elements are d q + m, not d q alone, with an m for each block.
constexpr bool has_minimum(DType t) {
  return t == DType::q4_1 || t == DType::q5_1 || t == DType::q4_k || t == DType::q5_k;
}

// What a type is stored in: blocks of so many elements of a row, and so many bytes. One element of a plain
// type is a block.
struct BlockSize {
  int64_t elements, bytes;
};
constexpr BlockSize block_size(DType t) {
  switch (t) {
    case DType::q8_0:
      return {32, 34};
    case DType::q4_0:
      return {32, 18};
    case DType::q4_1:
      return {32, 20};
    case DType::q5_0:
      return {32, 22};
    case DType::q5_1:
      return {32, 24};
    case DType::q4_k:
      return {256, 144};
    case DType::q5_k:
      return {256, 176};
    case DType::q6_k:
      return {256, 210};
    default:
      return {1, static_cast<int64_t>(dtype_size(t))};
  }
}

// The bytes of a row of n elements; n is a multiple of the elements of a block.
constexpr int64_t row_bytes(DType t, int64_t n) {
  return n / block_size(t).elements * block_size(t).bytes;
}

constexpr std::string_view dtype_name(DType t) {
  switch (t) {
    case DType::f32:
      return "fp32";
    case DType::f64:
      return "fp64";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "fp16";
    case DType::i64:
      return "int64";
    case DType::i32:
      return "int32";
    case DType::i8:
      return "int8";
    case DType::u8:
      return "uint8";
    case DType::q8_0:
      return "q8_0";
    case DType::q4_0:
      return "q4_0";
    case DType::q4_1:
      return "q4_1";
    case DType::q5_0:
      return "q5_0";
    case DType::q5_1:
      return "q5_1";
    case DType::q4_k:
      return "q4_k";
    case DType::q5_k:
      return "q5_k";
    case DType::q6_k:
      return "q6_k";
  }
  return "?";
}

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}

}  // namespace gpt
