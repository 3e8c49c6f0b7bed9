#include <algorithm>
#include <cstring>

#include "kernels/cpu/quant/kernels.h"
#include "kernels/cpu/quant/quant.h"
#include "kernels/cpu/quant/source_rows.h"

// Packs weights for products: source rows, quantized or not, are stored as panels (kernels.h shows the
// layout).

namespace gpt::quant {
namespace {

// Stores a quantization block as output `o` of the panel block at dst.
void place(const BlockQ8& block, int64_t o, uint8_t* dst) {
  std::memcpy(dst + 2 * o, &block.d, 2);
  uint8_t bytes[kQuantBlock];
  for (int64_t j = 0; j < kQuantBlock; ++j)
    bytes[j] = static_cast<uint8_t>(block.q[j] + 128);
  for (int64_t g = 0; g < kQuantBlock / 4; ++g)
    std::memcpy(dst + kScaleBytes + (g * kNr + o) * 4, bytes + 4 * g, 4);
}
void place(const BlockQ4& block, int64_t o, uint8_t* dst) {
  std::memcpy(dst + 2 * o, &block.d, 2);
  for (int64_t g = 0; g < kQuantBlock / 8; ++g)
    std::memcpy(dst + kScaleBytes + (g * kNr + o) * 4, block.q + 4 * g, 4);
}

template <class Block>
void pack_panel(const PackMatrixArgs& a, int64_t panel) {
  const PackedMatrix& m = a.dst;
  const int64_t blocks = m.in / kQuantBlock, bytes = panel_block_bytes(m.dtype);
  auto* dst = static_cast<uint8_t*>(m.data) + panel * blocks * bytes;
  const int64_t first = panel * kNr, outputs = std::min(kNr, m.out - first);
  if (outputs < kNr) std::memset(dst, 0, static_cast<size_t>(blocks * bytes));
  for (int64_t o = 0; o < outputs; ++o) {
    const SourceRow row = source_row(a.parts, first + o);
    for (int64_t b = 0; b < blocks; ++b)
      place(row.block<Block>(b), o, dst + b * bytes);
  }
}

}  // namespace

void pack_matrix(const ExecContext& ctx, const PackMatrixArgs& a) {
  ctx.pool.parallel_for((a.dst.out + kNr - 1) / kNr, [&](int64_t panel, int) {
    if (a.dst.dtype == DType::q8_0) {
      pack_panel<BlockQ8>(a, panel);
    } else {
      pack_panel<BlockQ4>(a, panel);
    }
  });
}

int64_t packed_bytes(DType dtype, int64_t out, int64_t in) {
  if (in % kQuantBlock != 0) return 0;
  return (out + kNr - 1) / kNr * (in / kQuantBlock) * panel_block_bytes(dtype);
}

}  // namespace gpt::quant
