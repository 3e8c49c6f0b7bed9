#include "model/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace gpt {
namespace {

// One more block than the window needs, so that the window never reaches into a block being overwritten.
int64_t blocks_for(int64_t capacity) {
  return (capacity + KvCache::kBlock - 1) / KvCache::kBlock + 1;
}

}  // namespace

int64_t KvCache::bytes(const ModelConfig& c, int slots, int64_t capacity, DType dtype) {
  const Shape shape{c.n_layer, 2, slots, blocks_for(capacity) * kBlock, c.kv_dim()};
  int64_t bytes = checked_size(shape, "key/value cache");
  if (__builtin_mul_overflow(bytes, static_cast<int64_t>(dtype_size(dtype)), &bytes)) {
    fail("key/value cache: {} elements are too many for this machine; use a smaller context",
         shape_string(shape));
  }
  return bytes;
}

KvCache::KvCache(const ModelConfig& c, int slots, int64_t capacity, DType dtype)
    : capacity_(capacity),
      blocks_per_slot_(blocks_for(capacity)),
      buffer_(static_cast<size_t>(bytes(c, slots, capacity, dtype)), "the key/value cache"),
      lengths_(static_cast<size_t>(slots)),
      tables_(static_cast<size_t>(slots)) {
  const int64_t rows = slots * blocks_per_slot_ * kBlock;
  const int64_t layer_bytes = rows * c.kv_dim() * static_cast<int64_t>(dtype_size(dtype));
  for (int64_t layer = 0; layer < c.n_layer; ++layer) {
    keys_.push_back(make_view(buffer_.data() + 2 * layer * layer_bytes, dtype, {rows, c.kv_dim()}));
    values_.push_back(make_view(buffer_.data() + (2 * layer + 1) * layer_bytes, dtype, {rows, c.kv_dim()}));
  }
}

int64_t KvCache::row(int slot, int64_t t) const {
  return tables_[static_cast<size_t>(slot)][static_cast<size_t>(t / kBlock)] * kBlock + t % kBlock;
}

void KvCache::extend(int slot, int64_t n) {
  int64_t& length = lengths_[static_cast<size_t>(slot)];
  length += n;
  std::vector<int32_t>& table = tables_[static_cast<size_t>(slot)];
  while (static_cast<int64_t>(table.size()) * kBlock < length) {
    const int64_t index = static_cast<int64_t>(table.size()) % blocks_per_slot_;
    table.push_back(static_cast<int32_t>(slot * blocks_per_slot_ + index));
  }
}

void KvCache::reset(int slot) {
  lengths_[static_cast<size_t>(slot)] = 0;
  tables_[static_cast<size_t>(slot)].clear();
}

void KvCache::copy(int from, int to) {
  if (from == to) return;
  reset(to);
  extend(to, length(from));
  const int64_t rows = std::min(length(from), blocks_per_slot_ * kBlock);
  for (const std::vector<TensorView>* views : {&keys_, &values_}) {
    for (const TensorView& v : *views) {
      const size_t row_bytes = static_cast<size_t>(v.cols()) * dtype_size(v.dtype);
      const int64_t slot_rows = blocks_per_slot_ * kBlock;
      std::memcpy(v.row<char>(0) + static_cast<size_t>(to * slot_rows) * row_bytes,
                  v.row<char>(0) + static_cast<size_t>(from * slot_rows) * row_bytes,
                  static_cast<size_t>(rows) * row_bytes);
    }
  }
}

}  // namespace gpt
