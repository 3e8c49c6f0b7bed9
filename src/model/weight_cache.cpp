#include "model/weight_cache.h"

#include <algorithm>

#include "base/ranges.h"
#include "model/params.h"

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

// Returns the size of the packed form in bytes, or 0 if there is none.
int64_t form_bytes(const KernelTable& kernels, std::span<const TensorView> parts, DType dtype,
                   bool transposed) {
  const int64_t out = sum_of(parts, &TensorView::rows);
  const int64_t bytes = kernels.packed_bytes(dtype, out, parts[0].cols(), transposed);
  // The reference kernels read plain rows, but only in the dtype of the matmul.
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
    const int64_t bytes = form_bytes(ctx.kernels, parts, dtype, transposed);
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
  const int64_t bytes = form_bytes(ctx.kernels, parts, dtype, transposed), version = version_of(first, last);
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

namespace {

bool reads_as_stored(DType stored, DType compute, bool in_place) {
  // A packed copy would be twice as large as the stored weights, and is not faster to read.
  const bool widens = compute == DType::f32 && (stored == DType::bf16 || stored == DType::f16);
  return is_quantized(stored) || widens || (in_place && stored == compute);
}

}  // namespace

std::optional<DType> packed_dtype(const KernelTable& kernels, std::span<const TensorView> parts,
                                  DType compute, bool in_place, bool transposed) {
  const auto is_stored_so = [&](const TensorView& w) { return reads_as_stored(w.dtype, compute, in_place); };
  const auto is_in_blocks = [](const TensorView& w) { return is_quantized(w.dtype); };
  if (compute == DType::f64 || std::ranges::all_of(parts, is_stored_so) ||
      std::ranges::any_of(parts, is_in_blocks))
    return {};
  // A matrix that does not fit quantization blocks of 32 elements uses fp16.
  const bool fits = !is_quantized(compute) || form_bytes(kernels, parts, compute, transposed) > 0;
  return fits ? compute : DType::f16;
}

std::vector<PackedForm> packed_forms(const ParamTable& table, std::span<const TensorView> weights,
                                     const KernelTable& kernels, const PackedUse& use) {
  std::vector<TensorView> views(weights.begin(), weights.end());
  for (auto id = static_cast<int>(views.size()); id < table.count(); ++id)
    views.push_back(make_view(static_cast<void*>(nullptr), DType::f32, table[id].shape));
  std::vector<PackedForm> forms;
  const auto add = [&](int first, int last, bool transposed) {
    const auto parts = from_to(views, first, last);
    const auto dtype = packed_dtype(kernels, parts, use.compute, use.in_place, transposed);
    const int64_t bytes = dtype ? form_bytes(kernels, parts, *dtype, transposed) : 0;
    if (bytes > 0) forms.push_back({first, last, transposed, bytes});
    return bytes > 0;
  };
  const auto bias = [&](int id) { return table.find(bias_of(table[id].role), table[id].layer); };
  for (int first = 0, last = 0; first < table.model_count(); first = ++last) {
    if (table[first].shape.size() != 2 || table[first].is_lookup_table) continue;
    while (last + 1 < table.model_count() && table[last + 1].contiguous_with_previous)
      ++last;
    // Several matrices with the same input are packed as one matrix if their biases form one vector (see
    // Linear).
    const bool one_bias = weights.empty() || bias(first) < 0 || glued_view(weights, bias(first), bias(last));
    if (!one_bias || !add(first, last, false)) {
      for (int id = first; id <= last; ++id)
        add(id, id, false);
    }
    if (use.gradients) add(first, last, true);
  }
  return forms;
}

std::vector<int> stored_params(const ParamTable& table, std::span<const PackedForm> forms) {
  std::vector<bool> is_packed(static_cast<size_t>(table.model_count()));
  for (const PackedForm& form : forms)
    std::fill(is_packed.begin() + form.first, is_packed.begin() + form.last + 1, true);
  std::vector<int> ids;
  for (int id = 0; id < table.model_count(); ++id) {
    if (!table[id].is_lookup_table && !is_packed[static_cast<size_t>(id)]) ids.push_back(id);
  }
  return ids;
}

int64_t packed_bytes(const ParamTable& table, std::span<const TensorView> weights, const KernelTable& kernels,
                     const PackedUse& use) {
  return sum_of(packed_forms(table, weights, kernels, use), &PackedForm::bytes);
}

}  // namespace gpt
