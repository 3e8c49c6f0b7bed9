#pragma once

#include <bit>
#include <cstdint>

#include "tensor/dtype.h"

namespace gpt {

// These 16-bit floating-point types are for storage only. Arithmetic is done in float.

// bfloat16: the upper 16 bits of an fp32 value.
struct bf16 {
  uint16_t bits;
};
// IEEE 754 half precision: 1 sign, 5 exponent, 10 fraction bits.
struct f16 {
  uint16_t bits;
};

inline float to_float(float x) {
  return x;
}
inline float to_float(bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}
inline float to_float(f16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1Fu;
  const uint32_t fraction = x.bits & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

// Rounds to the nearest value, with ties to even. NaN stays NaN, and values out of range become infinity.
inline bf16 to_bf16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>(u >> 16 | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}
inline f16 to_f16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>(u >> 16 & 0x8000u);
  const uint32_t a = u & 0x7fffffffu;
  const auto with_sign = [&](uint32_t bits) { return f16{static_cast<uint16_t>(sign | bits)}; };
  if (a > 0x7f800000u) return with_sign(0x7e00u | (a >> 13 & 0x3ffu));
  if (a >= 0x477ff000u) return with_sign(0x7c00u);  // values from 65520 on become infinity
  if (a < 0x38800000u) {                            // below 2^-14: subnormal, a multiple of 2^-24
    const float magic = 0.5f;                       // the last mantissa bit of 0.5f is worth 2^-24
    const float sum = std::bit_cast<float>(a) + magic;
    return with_sign(std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(magic));
  }
  return with_sign((a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);
}

template <class T>
T from_float(float x);
template <>
inline float from_float<float>(float x) {
  return x;
}
template <>
inline bf16 from_float<bf16>(float x) {
  return to_bf16(x);
}
template <>
inline f16 from_float<f16>(float x) {
  return to_f16(x);
}

template <>
constexpr DType dtype_of<bf16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<f16>() {
  return DType::f16;
}

}  // namespace gpt
