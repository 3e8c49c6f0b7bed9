#pragma once

#include "kernels/kernel_table.h"

namespace gpt {

struct AttentionTiles;

// Fused attention on tiles of keys that never holds more than a tile of the [q,kv] weights. Arithmetic in
// fp32 on activations of any type, but with AVX512_BF16 products of bf16 activations in bf16; fp64 goes to
// the reference. With `weights` the reference fills those, and out and lse are the same bits as without.
// Defined for all but ref.
template <Isa isa>
void attention_forward(const ExecContext& ctx, const AttentionArgs& a) noexcept;

// One task per sequence and key/value head, so that dk and dv have one writer.
template <Isa isa>
void attention_backward(const ExecContext& ctx, const AttentionBackwardArgs& a) noexcept;

// The tiles for queries and keys of a call. In training bf16 operands go through tile registers where there
// are any; their sums have another order than the tile that reads single queries in place, which inference
// needs the bits of.
AttentionTiles attention_tiles(Isa isa, bool bf16, bool training, int64_t head_dim);

}  // namespace gpt
