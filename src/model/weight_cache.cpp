#include "model/weight_cache.h"

#include <algorithm>

#include "base/ranges.h"

namespace gpt {

std::byte* WeightCache::allocate(int64_t bytes, Device* device) {
  constexpr int64_t kPiece = int64_t{64} << 20, kAlignment = 64;
  const int64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (pieces_.empty() || used_ + rounded > static_cast<int64_t>(pieces_.back().size())) {
    pieces_.emplace_back(static_cast<size_t>(std::max(kPiece, rounded)), "packed weights", device);
    used_ = 0;
  }
  used_ += rounded;
  return pieces_.back().data() + used_ - rounded;
}

void WeightCache::weights_changed(int id) {
  const auto at = static_cast<size_t>(id);
  if (at >= versions_.size()) versions_.resize(at + 1);
  ++versions_[at];
}

namespace {

// Of the packed form; 0 where there is none.
int64_t packed_bytes(const ExecContext& ctx, std::span<const TensorView> parts, DType dtype,
                     bool transposed) {
  const int64_t out = sum_of(parts, &TensorView::rows);
  const int64_t bytes = ctx.kernels.packed_bytes(dtype, out, parts[0].cols(), transposed);
  // The reference reads plain rows, but in the type of the product.
  const bool other_type =
      !is_quantized(dtype) &&
      std::any_of(parts.begin(), parts.end(), [&](const TensorView& part) { return part.dtype != dtype; });
  return bytes == 0 && other_type ? out * parts[0].cols() * static_cast<int64_t>(dtype_size(dtype)) : bytes;
}

std::span<const TensorView> from_to(std::span<const TensorView> weights, int first, int last) {
  return weights.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first) + 1);
}

}  // namespace

int64_t WeightCache::version_of(int first, int last) const {
  int64_t version = 0;
  for (int id = first; id <= last && id < static_cast<int>(versions_.size()); ++id)
    version += versions_[static_cast<size_t>(id)];
  return version;
}

PackedMatrix WeightCache::get(const ExecContext& ctx, std::span<const TensorView> weights, int first,
                              int last, DType dtype, bool transposed) {
  const std::lock_guard lock(mutex_);
  const auto parts = from_to(weights, first, last);
  auto [at, is_new] = entries_.try_emplace(Key{first, last, dtype, transposed, ctx.kernels.layout});
  Entry& entry = at->second;
  if (is_new) {
    const int64_t bytes = packed_bytes(ctx, parts, dtype, transposed);
    if (bytes > 0) {
      entry.matrix = {allocate(bytes, parts[0].device), dtype, sum_of(parts, &TensorView::rows),
                      parts[0].cols(), transposed};
      bytes_ += bytes;
    }
  }
  if (entry.matrix.data == nullptr) return {};
  const int64_t version = version_of(first, last);
  if (entry.version != version) {
    ctx.kernels.pack_matrix(ctx, {.dst = entry.matrix, .parts = parts});
    entry.version = version;
  }
  return entry.matrix;
}

PackedMatrix WeightCache::pack(const ExecContext& ctx, std::span<const TensorView> weights, int first,
                               int last, DType dtype, bool transposed) {
  const std::lock_guard lock(mutex_);
  const auto parts = from_to(weights, first, last);
  const int64_t bytes = packed_bytes(ctx, parts, dtype, transposed), version = version_of(first, last);
  if (bytes == 0) return {};
  TransientPack& passing = passing_[transposed ? 1 : 0];
  const Key key{first, last, dtype, transposed, ctx.kernels.layout};
  if (passing.key == key && passing.entry.version == version) return passing.entry.matrix;
  if (bytes > static_cast<int64_t>(passing.memory.size()))
    passing.memory = Buffer(static_cast<size_t>(bytes), "packed weights", parts[0].device);
  passing.key = key;
  passing.entry = {
      {passing.memory.data(), dtype, sum_of(parts, &TensorView::rows), parts[0].cols(), transposed}, version};
  ctx.kernels.pack_matrix(ctx, {.dst = passing.entry.matrix, .parts = parts});
  return passing.entry.matrix;
}

}  // namespace gpt
