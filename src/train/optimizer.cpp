#include "train/optimizer.h"

#include <fmt/ranges.h>

#include "base/ranges.h"
#include "base/suggest.h"

namespace gpt {

OptimizerState::OptimizerState(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table,
                               DType dtype, Memory* memory, const std::vector<ElementRange>& own)
    : own_(own) {
  int64_t own_elements = 0;
  for (const ElementRange& range : own) {
    own_offset_.push_back(own_elements);
    own_elements += range.size();
  }
  for (const OptimizerBuffer& buffer : buffers) {
    Entry& entry = buffers_.emplace_back();
    const std::string what = "the optimizer's " + buffer.name;
    if (!own.empty()) {
      GPT_ASSERT(buffer.shape.empty());
      entry.own = Buffer(static_cast<size_t>(own_elements) * dtype_size(dtype), what.c_str(), memory);
      entry.all = entry.own.view(0, dtype, Shape{own_elements});
    } else if (buffer.shape.empty()) {
      entry.params = ParamBuffer(table, dtype, what.c_str(), memory);
      entry.all = entry.params.all();
    } else {
      entry.own = Buffer(static_cast<size_t>(checked_size(buffer.shape, what)) * dtype_size(dtype),
                         what.c_str(), memory);
      entry.all = entry.own.view(0, dtype, buffer.shape);
      parts_.push_back({buffer.name, buffer.shape, 0, entry.all});
      tensors_.push_back({buffer.name, buffer.shape});
    }
  }
  const ParamLayout layout(table);
  for (int id = 0; id < table.count(); ++id) {
    for (size_t i = 0; table[id].trainable && i < buffers.size(); ++i) {
      if (!buffers[i].shape.empty()) continue;
      const std::string name = buffers[i].name + "." + table[id].name;
      tensors_.push_back({name, table[id].shape});
      if (is_whole())
        parts_.push_back({name, table[id].shape, 0, of(i, id)});
      else
        add_parts(table, i, name, id, layout.offset[static_cast<size_t>(id)]);
    }
  }
}

// at: where the parameter lies among all.
void OptimizerState::add_parts(const ParamTable& table, size_t i, const std::string& name, int id,
                               int64_t at) {
  for (size_t k = 0; k < own_.size(); ++k) {
    const ElementRange range = common(own_[k], {at, at + table[id].size()});
    if (range.size() == 0) continue;
    const TensorView whole = piece(i, k);
    const auto skipped = static_cast<size_t>(range.begin - own_[k].begin) * dtype_size(whole.dtype);
    TensorView view = make_view(static_cast<std::byte*>(whole.data) + skipped, whole.dtype, {range.size()});
    view.memory = whole.memory;
    parts_.push_back({name, table[id].shape, range.begin - at, view});
  }
}

TensorView OptimizerState::piece(size_t i, size_t k) const {
  const TensorView& all = buffers_[i].all;
  const auto skipped = static_cast<size_t>(own_offset_[k]) * dtype_size(all.dtype);
  TensorView view = make_view(static_cast<std::byte*>(all.data) + skipped, all.dtype, {own_[k].size()});
  view.memory = all.memory;
  return view;
}

int64_t OptimizerState::bytes(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table,
                              DType dtype, const std::vector<ElementRange>& own) {
  const int64_t elements = sum_of(buffers, [&](const OptimizerBuffer& buffer) {
    if (!own.empty()) return sum_of(own, &ElementRange::size);
    return buffer.shape.empty() ? param_buffer_elements(table) : checked_size(buffer.shape, buffer.name);
  });
  return elements * static_cast<int64_t>(dtype_size(dtype));
}

std::vector<OptimizerType>& optimizer_types() {
  static std::vector<OptimizerType> types = {
      {"adamw", make_adamw}, {"muon", make_muon}, {"muon-nanochat", make_muon_nanochat}};
  return types;
}

const OptimizerType& require_optimizer(const std::string& name) {
  if (const OptimizerType* type = find_by(optimizer_types(), &OptimizerType::name, name)) return *type;
  const auto names = transformed(optimizer_types(), &OptimizerType::name);
  fail_usage("config key \"optimizer\": expected one of {}, found \"{}\"{}", fmt::join(names, ", "),
             name.substr(0, 64), did_you_mean(name, names));
}

}  // namespace gpt
