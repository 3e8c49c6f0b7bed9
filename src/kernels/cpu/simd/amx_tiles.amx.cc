#include "kernels/cpu/simd/amx.h"

#include "kernels/cpu/simd/vec.h"

namespace gpt::amx {
namespace {

// The operand of ldtilecfg, for palette 1.
struct alignas(64) Configuration {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t bytes[16] = {};
  uint8_t rows[16] = {};
};

thread_local int64_t configured = 0;

}  // namespace

#ifdef GPT_EMULATE_AMX
thread_local Tile tiles[8];
#endif

void configure(int64_t rows) noexcept {
  if (rows == configured) return;
  const int64_t upper = rows < kTileRows ? rows : kTileRows;
  const int64_t lower = rows > kTileRows ? rows - kTileRows : kTileRows;  // lower tiles are always
                                                                          // configured, even if unused
  const int64_t of_tile[8] = {upper, upper, lower, lower, upper, lower, kTileRows, kTileRows};
  Configuration c;
  for (int i = 0; i < 8; ++i) {
    c.bytes[i] = kTileBytes;
    c.rows[i] = static_cast<uint8_t>(of_tile[i]);
  }
  __asm__ volatile("" ::
                       : "memory");  // the intrinsic declares only 8 bytes of the operand, so the compiler
                                     // may not have stored the rest
  _tile_loadconfig(&c);
  configured = rows;
}

}  // namespace gpt::amx
