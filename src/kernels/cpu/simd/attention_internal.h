#pragma once

// The kernels of attention_pack*.cc and attention_backward*.cc, for the lists in attention*.cc.
#include "kernels/cpu/simd/attention_kernels.h"
#include "kernels/cpu/simd/vec.h"

namespace gpt::GPT_SIMD_NAMESPACE {

GPT_INLINE int64_t least(int64_t a, int64_t b) {
  return a < b ? a : b;
}
GPT_INLINE int64_t most(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// n without its tail: the floats that fill whole vectors.
GPT_INLINE int64_t full_lanes(int64_t n) {
  return n / kLanes * kLanes;
}

void pack_rows(const PackRows& src, void* dst, int64_t ld);
void pack_transposed(const PackRows& src, void* dst);
void pack_summed(const PackRows& src, void* dst, int64_t dp);
void dots(const PackRows& a, const PackRows& b, float* dst);
void unpack(const UnpackRows& rows);
void dropout_factors(uint64_t key, uint64_t first, int64_t n, uint32_t threshold, float scale, float* dst);
void decode_tile(const AttentionForwardTile& tile, const PackRows& k, const PackRows& v, float* keys);
void backward_tile(const AttentionBackwardTile& tile);

}  // namespace gpt::GPT_SIMD_NAMESPACE
