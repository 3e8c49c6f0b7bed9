#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpt {

// The element type of a tensor. q8_0 and all dtypes after it are quantized formats of ggml (kernels/quant.h).
// Quantized formats store elements in quantization blocks, so single elements cannot be addressed.
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
  iq4_nl,
  q4_k,
  q5_k,
  q6_k
};

// The storage layout of a dtype: a quantization block holds `elements` consecutive elements of a row in
// `bytes` bytes. For dtypes without quantization, a block is one element.
struct BlockSize {
  int64_t elements, bytes;
};
struct DTypeFacts {
  std::string_view name;
  BlockSize block;
};
// The table is at namespace scope, because a table inside the function would be copied on every call.
inline constexpr DTypeFacts kDTypeFacts[] = {
    {"fp32", {1, 4}},     {"fp64", {1, 8}},    {"bf16", {1, 2}},   {"fp16", {1, 2}},     {"int64", {1, 8}},
    {"int32", {1, 4}},    {"int8", {1, 1}},    {"uint8", {1, 1}},  {"q8_0", {32, 34}},   {"q4_0", {32, 18}},
    {"q4_1", {32, 20}},   {"q5_0", {32, 22}},  {"q5_1", {32, 24}}, {"iq4_nl", {32, 18}}, {"q4_k", {256, 144}},
    {"q5_k", {256, 176}}, {"q6_k", {256, 210}}};
constexpr const DTypeFacts& dtype_facts(DType t) {
  return kDTypeFacts[static_cast<size_t>(t)];
}
constexpr std::string_view dtype_name(DType t) {
  return dtype_facts(t).name;
}
constexpr BlockSize block_size(DType t) {
  return dtype_facts(t).block;
}
static_assert(dtype_name(DType::q6_k) == "q6_k" && dtype_name(DType::i8) == "int8");

constexpr bool is_quantized(DType t) {
  return t >= DType::q8_0;
}

// Returns true if the dtype stores a minimum m in each quantization block. An element is then d q + m instead
// of d q, where d is the scale of the block and q is the stored integer.
constexpr bool has_minimum(DType t) {
  return t == DType::q4_1 || t == DType::q5_1 || t == DType::q4_k || t == DType::q5_k;
}

// Returns the size of one element in bytes, or 0 for quantized dtypes.
constexpr size_t dtype_size(DType t) {
  return is_quantized(t) ? 0 : static_cast<size_t>(block_size(t).bytes);
}

// Returns the size in bytes of a row of n elements. n must be a multiple of the quantization block size.
constexpr int64_t row_bytes(DType t, int64_t n) {
  return n / block_size(t).elements * block_size(t).bytes;
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
