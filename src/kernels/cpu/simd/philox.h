#pragma once

#include "kernels/cpu/simd/vec.h"

namespace gpt::GPT_SIMD_NAMESPACE {

// Computes Philox4x32-10 (Salmon et al. 2011), as defined in base/rng.h, for kLanes counters together. The
// results form a sequence of random words, in which word w of counter c has the index 4 c + w. words[j]
// receives kLanes words of this sequence, starting j * kLanes words after word 0 of counter `first`. `first`
// has 64 bits; the upper half of the 128-bit counter is zero.
GPT_INLINE void philox_words(uint64_t first, uint64_t key, IVec (&words)[4]) {
  // Lane 4 k + j computes counter j * kLanes/4 + k, so that the final transposition puts the words in order.
  uint32_t offsets[kLanes];
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    offsets[lane] = lane % 4 * (kLanes / 4) + lane / 4;
  const IVec offset = load_i(offsets);
  const auto low = static_cast<uint32_t>(first), high = static_cast<uint32_t>(first >> 32);
  IVec c[4] = {add_i(set1_i(low), offset), set1_i(high), set1_i(0), set1_i(0)};
  // A lower half that is less than its start value has wrapped around.
  c[1] = select(less_equal_u(set1_i(low), c[0]), c[1], set1_i(high + 1));
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    IVec high_a, low_a, high_b, low_b;
    multiply_wide(c[0], set1_i(0xD2511F53u), &high_a, &low_a);
    multiply_wide(c[2], set1_i(0xCD9E8D57u), &high_b, &low_b);
    c[0] = xor_i(xor_i(high_b, c[1]), set1_i(k0));
    c[1] = low_b;
    c[2] = xor_i(xor_i(high_a, c[3]), set1_i(k1));
    c[3] = low_a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  transpose4(c);
  for (int j = 0; j < 4; ++j)
    words[j] = c[j];
}

// Computes the dropout factors of the 4 kLanes elements whose random words start with counter `first`. A
// factor is 0 if the word is at most last_dropped, else `scale`.
GPT_INLINE void philox_factors(uint64_t first, uint64_t key, uint32_t last_dropped, float scale,
                               float (&factors)[4 * kLanes]) {
  IVec words[4];
  philox_words(first, key, words);
  for (int j = 0; j < 4; ++j)
    store(factors + j * kLanes, select(less_equal_u(words[j], set1_i(last_dropped)), zero(), set1(scale)));
}

}  // namespace gpt::GPT_SIMD_NAMESPACE
