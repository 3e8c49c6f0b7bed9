#include "model/adapter_settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "base/ranges.h"
#include "model/families/family.h"
#include "model/model_files.h"
#include "tensor/device.h"

namespace gpt {
namespace {

constexpr const char* kAll = "all-linear";

std::string module_of(const std::string& tensor) {
  constexpr std::string_view kWeight = ".weight";
  return tensor.ends_with(kWeight) ? tensor.substr(0, tensor.size() - kWeight.size()) : tensor;
}

// A pattern maps module names to values. Returns the value of the longest name that matches the module, or
// null if no name matches.
template <class T>
const T* find_pattern(const std::map<std::string, T>& pattern, const std::string& module) {
  const std::pair<const std::string, T>* found = nullptr;
  for (const auto& entry : pattern) {
    if (is_module_named(module, entry.first) &&
        (found == nullptr || entry.first.size() > found->first.size()))
      found = &entry;
  }
  return found == nullptr ? nullptr : &found->second;
}

void check(const AdapterSettings& s, const ModelConfig& c) {
  const auto check_alpha = [](double alpha) {
    if (!std::isfinite(alpha) || alpha == 0)
      fail_parameter("lora_alpha", "expected a number other than 0, found {}", alpha);
  };
  check_alpha(s.alpha);
  for (const auto& [name, alpha] : s.alpha_pattern)
    check_alpha(alpha);
  if (!(s.dropout >= 0 && s.dropout < 1))
    fail_parameter("lora_dropout", "expected at least 0 and less than 1, found {}", s.dropout);
  if (s.targets.empty()) fail_parameter("lora_targets", "expected at least one name, found none");
  for (const int64_t layer : s.layers) {
    if (layer < 0 || layer >= c.n_layer)
      fail_parameter("lora_layers", "expected 0 to {}, found {}", c.n_layer - 1, layer);
  }
}

class Targets {
 public:
  Targets(const ParamTable& table, const AdapterSettings& settings)
      : table_(table), settings_(settings), used_(settings.targets.size(), false) {}

  bool have(const AdapterModule& module) {
    bool whole = false;
    for (size_t i = 0; i < used_.size(); ++i) {
      const std::string& target = settings_.targets[i];
      if (target != kAll && !is_module_named(module.name, target)) continue;
      used_[i] = whole = true;
    }
    return whole || all_parts(module);
  }

  // Throws invalid_argument if a target matches no module.
  void check_used(const std::vector<AdapterModule>& modules) const {
    for (size_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) continue;
      std::vector<std::string> names = {kAll};
      for (const AdapterModule& module : modules) {
        if (table_[module.first].layer == 0) names.push_back(short_name(module));
      }
      fail_parameter("lora_targets", "{} is not a matrix in the layers of this model: expected one of {}",
                     printable(settings_.targets[i]), fmt::join(names, ", "));
    }
  }

  static std::string short_name(const AdapterModule& module) {
    const size_t dot = module.name.rfind('.');
    const size_t before = dot == std::string::npos || dot == 0 ? dot : module.name.rfind('.', dot - 1);
    return module.name.substr(before == std::string::npos ? 0 : before + 1);
  }

 private:
  // Returns true if the targets contain the gpt.cpp names of all parameters in a module. Throws
  // invalid_argument if they contain only some of these names.
  bool all_parts(const AdapterModule& module) {
    std::vector<std::string> named, missing;
    for (int id = module.first; id <= module.last; ++id) {
      const std::string name = module_of(table_[id].name);
      bool is = false;
      for (size_t i = 0; i < used_.size(); ++i) {
        if (!is_module_named(name, settings_.targets[i])) continue;
        used_[i] = is = true;
      }
      (is ? named : missing).push_back(name);
    }
    if (!named.empty() && !missing.empty())
      fail_parameter("lora_targets",
                     "{} and {} are stored as one matrix in the files of this model, {}; name this matrix or "
                     "all of its parts",
                     fmt::join(named, ", "), fmt::join(missing, ", "), short_name(module));
    return !named.empty();
  }

  const ParamTable& table_;
  const AdapterSettings& settings_;
  std::vector<bool> used_;
};

}  // namespace

bool is_module_named(std::string_view module, std::string_view name) {
  if (!module.ends_with(name)) return false;
  return module.size() == name.size() || module[module.size() - name.size() - 1] == '.';
}

const Naming& adapter_naming(const ModelConfig& config) {
  return *export_family(hf_config(config)).namings[0];
}

std::vector<AdapterModule> adapter_modules(const ModelConfig& c, const ParamTable& table,
                                           const Naming& naming) {
  std::vector<AdapterModule> modules;
  for (int id = 0; id < table.model_count(); ++id) {
    const ParamSpec& spec = table[id];
    if (spec.layer < 0 || spec.shape.size() != 2) continue;
    const std::string name = module_of(file_place(naming, c, spec).tensor);
    if (name.empty()) continue;
    if (!modules.empty() && modules.back().name == name) {
      modules.back().last = id;
    } else {
      modules.push_back({name, id, id});
    }
  }
  return modules;
}

AdapterSize adapter_size(const std::string& module, const AdapterSettings& s) {
  const int64_t* rank = find_pattern(s.rank_pattern, module);
  const double* alpha = find_pattern(s.alpha_pattern, module);
  return {rank != nullptr ? *rank : s.rank, alpha != nullptr ? *alpha : s.alpha};
}

double adapter_scale(const AdapterSize& size, bool rslora) {
  const auto r = static_cast<double>(size.rank);
  return size.alpha / (rslora ? std::sqrt(r) : r);
}

Adapter make_adapter(const ModelConfig& c, const ParamTable& table, const AdapterSettings& settings) {
  check(settings, c);
  const std::vector<AdapterModule> modules = adapter_modules(c, table, adapter_naming(c));
  Targets targets(table, settings);
  std::vector<LowRank> products;
  for (const AdapterModule& module : modules) {
    const bool has = targets.have(module);
    const bool in_layer =
        settings.layers.empty() ||
        std::ranges::find(settings.layers, table[module.first].layer) != settings.layers.end();
    if (!has || !in_layer) continue;
    const AdapterSize size = adapter_size(module.name, settings);
    products.push_back({module.first, module.last, size.rank, adapter_scale(size, settings.rslora)});
  }
  targets.check_used(modules);
  if (products.empty())
    fail_parameter("lora_targets", "this model has no layers, so there is nothing to adapt");
  return {table, std::move(products), settings.dropout};
}

namespace {

std::vector<ParamSpec> joined(std::vector<ParamSpec> first, const std::vector<ParamSpec>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

AdaptedModel::AdaptedModel(const Model& base, const ModelConfig& config, Adapter a,
                           std::vector<ParamSpec> more, Device* device, DType dtype)
    : adapter(std::move(a)), model(config, joined(std::move(more), adapter.table.specs())) {
  for (int id = 0; id < model.table.model_count(); ++id)
    model.table.set_trainable(id, false);
  weights = ParamBuffer(model.table, dtype, "trained weights", device);
  model.weights = base.weights;
  for (int id = model.table.model_count(); id < model.table.count(); ++id) {
    model.weights.push_back(weights[id]);
    if (id >= first_adapter_id()) adapter.weights.push_back(weights[id]);
  }
}

}  // namespace gpt
