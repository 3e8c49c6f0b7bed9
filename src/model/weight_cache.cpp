#include "model/weight_cache.h"

namespace gpt {

const PackedMatrix* WeightCache::get(const ExecContext& ctx, std::span<const TensorView> weights, int first,
                                     int last, DType dtype, bool transposed) {
  const Isa isa = ctx.kernels.isa;
  const auto parts = weights.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first + 1));
  auto [at, is_new] = entries_.try_emplace(Key{first, last, dtype, transposed, isa});
  Entry& entry = at->second;
  if (is_new) {
    int64_t out = 0;
    for (const TensorView& part : parts)
      out += part.rows();
    const int64_t bytes = packed_bytes(isa, dtype, out, parts[0].cols(), transposed);
    if (bytes > 0) {
      entry.memory = Buffer(static_cast<size_t>(bytes), "a packed weight matrix");
      entry.matrix = {entry.memory.data(), dtype, out, parts[0].cols(), transposed};
      bytes_ += bytes;
    }
  }
  if (entry.matrix.data == nullptr) return nullptr;
  if (entry.version != version_) {
    ctx.kernels.pack_matrix(ctx, {.dst = &entry.matrix, .parts = parts});
    entry.version = version_;
  }
  return &entry.matrix;
}

}  // namespace gpt
