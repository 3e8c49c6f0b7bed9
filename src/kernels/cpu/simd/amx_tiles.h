#pragma once

#include <cstdint>

// The tile registers, which hold up to 16 rows of 64 bytes (Intel SDM volume 1, chapter 18). All kernels use
// them in one way: a block of C of up to 32 x 32 is tiles 0 1 over 2 3, A is 4 over 5, B is 6 beside 7.
namespace gpt::amx {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileBytes = 64;
inline constexpr int64_t kBlockRows = 2 * kTileRows;  // of C, from A
inline constexpr int64_t kBlockCols = 2 * kTileRows;  // of C, from B

// Sets this thread's tiles up for blocks of `rows` rows, at most kBlockRows: that many in all of tiles 0, 1
// and 4, the rest in 2, 3 and 5. Costs nothing where they are set up so already.
void configure(int64_t rows) noexcept;

}  // namespace gpt::amx
