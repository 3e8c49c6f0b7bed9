#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpt {

// q8_0 and q4_0 are ggml's block formats (kernels/quant.h): their elements have no address of their own.
enum class DType : uint8_t { f32, f64, bf16, f16, i64, i32, i8, u8, q8_0, q4_0 };
enum class Device : uint8_t { cpu, cuda };

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
    case DType::q8_0:
    case DType::q4_0:
      return 0;
  }
  return 0;
}

constexpr bool is_quantized(DType t) {
  return t == DType::q8_0 || t == DType::q4_0;
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
