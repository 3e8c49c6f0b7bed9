#include "model/params.h"

#include "base/rng.h"
#include "tensor/device.h"

namespace gpt {
namespace {

constexpr int64_t kAlign = 16;  // in elements; 16 floats fill one cache line

template <class T>
void fill(const TensorView& view, const InitRule& rule, uint64_t seed, int id) {
  RandomStream random(seed, RandomSite::init, 0, static_cast<uint64_t>(id));
  const MappedView host(view, Access::write);
  T* x = host->as<T>();
  for (int64_t i = 0; i < view.size(); ++i) {
    switch (rule.kind) {
      case InitRule::Kind::zeros:
        x[i] = 0;
        break;
      case InitRule::Kind::ones:
        x[i] = 1;
        break;
      case InitRule::Kind::normal:
        x[i] = static_cast<T>(static_cast<float>(rule.scale * random.normal()));
        break;
      case InitRule::Kind::uniform:
        x[i] = static_cast<T>(static_cast<float>(rule.scale * (2 * random.uniform() - 1)));
        break;
    }
  }
}

}  // namespace

ParamLayout::ParamLayout(const ParamTable& table) {
  bool follows = false;  // true if the previous parameter is in the buffer
  for (const ParamSpec& spec : table.specs()) {
    offset.push_back(-1);
    if (!spec.trainable) {
      follows = false;
      continue;
    }
    if (!spec.contiguous_with_previous || !follows) elements = (elements + kAlign - 1) / kAlign * kAlign;
    offset.back() = elements;
    follows = true;
    if (__builtin_add_overflow(elements, spec.size(), &elements))
      fail("the model's parameters cannot be counted in 64 bits");
  }
}

namespace {

// Returns the table with the trainable parameters frozen and the frozen parameters trainable.
ParamTable exchanged(ParamTable table) {
  for (int id = 0; id < table.count(); ++id)
    table.set_trainable(id, !table[id].trainable);
  return table;
}

}  // namespace

int64_t frozen_elements(const ParamTable& table) {
  return param_buffer_elements(exchanged(table));
}

ParamBuffer::ParamBuffer(const ParamTable& table, DType dtype, const char* what, Device* device,
                         bool with_frozen)
    : dtype_(dtype) {
  const ParamLayout layout(table);
  elements_ = layout.elements;
  const auto size = static_cast<int64_t>(dtype_size(dtype));
  buffer_ = Buffer(static_cast<size_t>(elements_) * dtype_size(dtype), what, device);
  for (int id = 0; id < table.count(); ++id) {
    const int64_t at = layout.offset[static_cast<size_t>(id)];
    views_.push_back(at < 0 ? TensorView{} : buffer_.view(at * size, dtype, table[id].shape));
  }
  if (!with_frozen) return;
  const ParamLayout beside(exchanged(table));
  frozen_ = Buffer(static_cast<size_t>(beside.elements) * dtype_size(dtype), what, device);
  for (int id = 0; id < table.count(); ++id) {
    const int64_t at = beside.offset[static_cast<size_t>(id)];
    if (at >= 0) views_[static_cast<size_t>(id)] = frozen_.view(at * size, dtype, table[id].shape);
  }
}

TensorView ParamBuffer::all() const {
  return buffer_.view(0, dtype_, Shape{elements_});
}

void ParamBuffer::drop(int64_t begin, int64_t end) const {
  const auto size = static_cast<int64_t>(dtype_size(dtype_));
  buffer_.drop(begin * size, (end - begin) * size);
}

TensorView ParamBuffer::range(int64_t begin, int64_t end) const {
  return buffer_.view(begin * static_cast<int64_t>(dtype_size(dtype_)), dtype_, Shape{end - begin});
}

void init_params(const ParamTable& table, const ParamBuffer& weights, uint64_t seed, int first_id,
                 const std::function<void(int id)>& filled) {
  for (int id = first_id; id < table.count(); ++id) {
    if (!weights[id]) continue;
    if (weights[id].dtype == DType::f64) {
      fill<double>(weights[id], table[id].init, seed, id);
    } else {
      fill<float>(weights[id], table[id].init, seed, id);
    }
    if (filled) filled(id);
  }
}

TensorView glued_view(std::span<const TensorView> views, int first, int last) {
  TensorView merged = views[static_cast<size_t>(first)];
  if (!merged) return {};
  const bool matrix = merged.rank == 2;
  for (int id = first + 1; id <= last; ++id) {
    const TensorView& next = views[static_cast<size_t>(id)];
    const int64_t bytes = row_bytes(merged.dtype, merged.transposed ? merged.rows() : merged.size());
    if (!next || next.dtype != merged.dtype || next.transposed != merged.transposed ||
        static_cast<char*>(merged.data) + bytes != next.data)
      return {};
    merged.shape[0] += next.shape[0];
    if (!matrix) merged.ld = merged.shape[0];
  }
  return merged;
}

}  // namespace gpt
