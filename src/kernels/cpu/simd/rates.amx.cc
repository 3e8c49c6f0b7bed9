#include "kernels/rates.h"
#include "kernels/cpu/simd/amx.h"
#include "kernels/cpu/simd/vec.h"

namespace gpt {
namespace {

// A round consists of four products of tiles. All tiles hold zeros.
constexpr int64_t kProducts = 4, kRowsOfA = 16, kColsOfB = 16;
constexpr int64_t kBf16Terms = 32, kInt8Terms = 64;

void zero_tiles() {
  amx::configure(amx::kBlockRows);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

float first_of_sums() {
  alignas(64) float sums[kRowsOfA * kColsOfB];
  _tile_stored(0, sums, amx::kTileBytes);
  return sums[0];
}

float bf16_tiles(int64_t rounds) noexcept {
  zero_tiles();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  return first_of_sums();
}

float int8_tiles(int64_t rounds) noexcept {
  zero_tiles();
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  return first_of_sums();
}

}  // namespace

void set_rates_amx(RateKernels& k) noexcept {
  k.bf16 = {.run = bf16_tiles, .operations = 2 * kProducts * kRowsOfA * kColsOfB * kBf16Terms};
  k.int8 = {.run = int8_tiles, .operations = 2 * kProducts * kRowsOfA * kColsOfB * kInt8Terms};
}

}  // namespace gpt
