#include "train/optimizer.h"

#include <fmt/ranges.h>

#include "base/ranges.h"
#include "base/suggest.h"

namespace gpt {

OptimizerState::OptimizerState(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table,
                               DType dtype, Memory* memory) {
  for (const OptimizerBuffer& buffer : buffers) {
    Entry& entry = buffers_.emplace_back();
    const std::string what = "the optimizer's " + buffer.name;
    if (buffer.shape.empty()) {
      entry.params = ParamBuffer(table, dtype, what.c_str(), memory);
      entry.all = entry.params.all();
    } else {
      entry.own = Buffer(static_cast<size_t>(checked_size(buffer.shape, what)) * dtype_size(dtype),
                         what.c_str(), memory);
      entry.all = entry.own.view(0, dtype, buffer.shape);
      named_.push_back({buffer.name, entry.all});
    }
  }
  for (int id = 0; id < table.count(); ++id) {
    for (size_t i = 0; table[id].trainable && i < buffers.size(); ++i) {
      if (buffers[i].shape.empty()) named_.push_back({buffers[i].name + "." + table[id].name, of(i, id)});
    }
  }
}

int64_t OptimizerState::bytes(const std::vector<OptimizerBuffer>& buffers, const ParamTable& table,
                              DType dtype) {
  const int64_t elements = sum_of(buffers, [&](const OptimizerBuffer& buffer) {
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
