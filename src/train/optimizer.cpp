#include "train/optimizer.h"

#include <fmt/ranges.h>

#include "base/ranges.h"
#include "base/suggest.h"

namespace gpt {
namespace {

bool is_of_all(const OptimizerBuffer& buffer) {
  return buffer.shape.empty() && buffer.params.empty();
}

// Returns the range of a parameter that this rank owns, as element indices relative to the start of the
// parameter.
ElementRange own_part(const ParamTable& table, const ParamLayout& layout, int id,
                      const std::vector<ElementRange>& own) {
  const int64_t at = layout.offset[static_cast<size_t>(id)], size = table[id].size();
  if (own.empty()) return {0, size};
  for (const ElementRange& range : own) {
    const ElementRange part = common(range, {at, at + size});
    if (part.size() > 0) return {part.begin - at, part.end - at};
  }
  return {};
}

// Returns the shape of the part of a buffer that this rank stores. Requires that the buffer has its own shape
// or its own list of parameters.
Shape kept_shape(const OptimizerBuffer& buffer, const ParamTable& table, const ParamLayout& layout,
                 const std::vector<ElementRange>& own) {
  if (buffer.params.size() != 1) return buffer.shape;
  const ElementRange part = own_part(table, layout, buffer.params[0], own);
  if (buffer.shape.empty()) return own.empty() ? table[buffer.params[0]].shape : Shape{part.size()};
  return part.size() > 0 ? buffer.shape : Shape{0};
}

}  // namespace

std::vector<ParamRange> params_in(const ElementRange& range, const ParamTable& table) {
  const ParamLayout layout(table);
  std::vector<ParamRange> params;
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    const int64_t at = layout.offset[static_cast<size_t>(id)];
    const ElementRange both = common(range, {at, at + table[id].size()});
    if (both.size() > 0) params.push_back({id, both});
  }
  return params;
}

ParamSlice ParamSlice::cut(const ElementRange& part) const {
  const auto of = [&](const TensorView& view) {
    return view ? view.slice_flat(part.begin - range.begin, part.size()) : TensorView{};
  };
  return {part, of(weight), of(grad), transformed(state, of)};
}

OptimizerState::OptimizerState(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table,
                               DType dtype, Device* device, const std::vector<ElementRange>& own)
    : own_(own) {
  const ParamLayout layout(table);
  int64_t own_elements = 0;
  for (const ElementRange& range : own) {
    own_offset_.push_back(own_elements);
    own_elements += range.size();
  }
  for (const OptimizerBuffer& buffer : buffers) {
    if (!is_of_all(buffer)) {
      add_shaped(buffer, table, layout, dtype, device);
      continue;
    }
    Entry& entry = buffers_.emplace_back();
    entry.of_all = true;
    const std::string what = "the optimizer's " + buffer.name;
    if (!own.empty()) {
      entry.own = Buffer(static_cast<size_t>(own_elements) * dtype_size(dtype), what.c_str(), device);
      entry.all = entry.own.view(0, dtype, Shape{own_elements});
    } else {
      entry.params = ParamBuffer(table, dtype, what.c_str(), device);
      entry.all = entry.params.all();
    }
  }
  for (int id = 0; id < table.count(); ++id) {
    for (size_t i = 0; table[id].trainable && i < buffers.size(); ++i) {
      if (!is_of_all(buffers[i])) continue;
      const std::string name = buffers[i].name + "." + table[id].name;
      tensors_.push_back({name, table[id].shape});
      if (is_whole())
        parts_.push_back({name, table[id].shape, 0, of(i, id)});
      else
        add_parts(table, i, name, id, layout.offset[static_cast<size_t>(id)]);
    }
  }
}

void OptimizerState::add_shaped(const OptimizerBuffer& buffer, const ParamTable& table,
                                const ParamLayout& layout, DType dtype, Device* device) {
  const std::string what = "the optimizer's " + buffer.name;
  const std::vector<int>& params = buffer.params;
  const Shape shape = kept_shape(buffer, table, layout, own_);
  const Shape whole = buffer.shape.empty() ? table[params[0]].shape : buffer.shape;
  Entry& entry = buffers_.emplace_back();
  entry.own =
      Buffer(static_cast<size_t>(checked_size(shape, what)) * dtype_size(dtype), what.c_str(), device);
  entry.all = entry.own.view(0, dtype, shape);
  tensors_.push_back({buffer.name, whole});
  if (is_whole() || params.empty()) {
    parts_.push_back({buffer.name, whole, 0, entry.all});
    return;
  }
  const int64_t row = params.size() == 1 ? 0 : checked_size(whole, what) / std::ssize(params);
  for (size_t i = 0; i < params.size(); ++i) {
    const ElementRange part = own_part(table, layout, params[i], own_);
    if (part.size() == 0) continue;
    const int64_t at = row * static_cast<int64_t>(i) * static_cast<int64_t>(dtype_size(dtype));
    parts_.push_back({buffer.name, whole,
                      row > 0                ? row * static_cast<int64_t>(i)
                      : buffer.shape.empty() ? part.begin
                                             : 0,
                      row > 0 ? entry.own.view(at, dtype, Shape{row}) : entry.all});
  }
}

// `at` is the offset of the parameter in the buffer of all trainable parameters.
void OptimizerState::add_parts(const ParamTable& table, size_t i, const std::string& name, int id,
                               int64_t at) {
  for (size_t k = 0; k < own_.size(); ++k) {
    const ElementRange range = common(own_[k], {at, at + table[id].size()});
    if (range.size() == 0) continue;
    parts_.push_back({name, table[id].shape, range.begin - at,
                      piece(i, k).slice_flat(range.begin - own_[k].begin, range.size())});
  }
}

TensorView OptimizerState::piece(size_t i, size_t k) const {
  return buffers_[i].all.slice_flat(own_offset_[k], own_[k].size());
}

std::vector<ParamSlice> OptimizerState::slices(const ParamBuffer& weights, const ParamBuffer& grads) const {
  const std::vector<ElementRange> whole = {{0, weights.all().size()}};
  const std::vector<ElementRange>& ranges = is_whole() ? whole : own_;
  std::vector<ParamSlice> slices;
  for (size_t k = 0; k < ranges.size(); ++k) {
    const ElementRange& range = ranges[k];
    if (range.size() == 0) continue;
    ParamSlice& slice = slices.emplace_back(
        ParamSlice{range, weights.range(range.begin, range.end), grads.range(range.begin, range.end), {}});
    for (size_t i = 0; i < buffers_.size(); ++i)
      slice.state.push_back(!buffers_[i].of_all ? TensorView{} : is_whole() ? buffers_[i].all : piece(i, k));
  }
  return slices;
}

int64_t OptimizerState::bytes(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table,
                              DType dtype, const std::vector<ElementRange>& own) {
  const ParamLayout layout(table);
  const int64_t elements = sum_of(buffers, [&](const OptimizerBuffer& buffer) {
    if (!is_of_all(buffer)) return checked_size(kept_shape(buffer, table, layout, own), buffer.name);
    return own.empty() ? layout.elements : sum_of(own, &ElementRange::size);
  });
  return elements * static_cast<int64_t>(dtype_size(dtype));
}

std::vector<OptimizerType>& optimizer_types() {
  static std::vector<OptimizerType> types = {{"adamw", make_adamw, Divides::at_elements},
                                             {"muon", make_muon, Divides::at_matrices},
                                             {"muon-nanochat", make_muon_nanochat, Divides::at_matrices}};
  return types;
}

const OptimizerType& require_optimizer(const std::string& name) {
  if (const OptimizerType* type = find_by(optimizer_types(), &OptimizerType::name, name)) return *type;
  const auto names = transformed(optimizer_types(), &OptimizerType::name);
  fail_key("optimizer", "expected one of {}, found \"{}\"{}", fmt::join(names, ", "), name.substr(0, 64),
           did_you_mean(name, names));
}

}  // namespace gpt
