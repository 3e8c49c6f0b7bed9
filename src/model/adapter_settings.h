#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/adapter.h"
#include "model/families/tensor_names.h"
#include "model/model.h"
#include "model/params.h"

namespace gpt {

// What an adapter is, in PEFT's words and with PEFT's defaults.
struct AdapterSettings {
  int64_t rank = 8;
  double alpha = 8;     // the product is multiplied with alpha / rank,
  bool rslora = false;  // or with alpha / sqrt(rank) (Kalajdzievski 2023)
  double dropout = 0;   // of what A reads, in training
  // The matrices: "all-linear", all of the blocks; or names of modules as the family's own program has them,
  // whole or from any part on ("c_attn", "mlp.c_proj"), or as this one has them ("attn.q", "mlp.fc").
  std::vector<std::string> targets = {"all-linear"};
  std::vector<int64_t> layers = {};  // empty: all
  // Others for modules so named, the longest name winning.
  std::map<std::string, int64_t> rank_pattern = {};
  std::map<std::string, double> alpha_pattern = {};
};

// A matrix of the files: "transformer.h.0.attn.c_attn", and the parameters of the model that lie in it.
struct AdapterModule {
  std::string name;
  int first, last;
};
// Those that an adapter can have, in the order of the table.
std::vector<AdapterModule> adapter_modules(const ModelConfig& config, const ParamTable& table,
                                           const Naming& naming);
// The naming of a model's adapters: that of its files as transformers has them.
const Naming& adapter_naming(const ModelConfig& config);

// What the settings say of a module, and the scale that follows.
struct AdapterSize {
  int64_t rank;
  double alpha;
};
AdapterSize adapter_size(const std::string& module, const AdapterSettings& settings);
double adapter_scale(const AdapterSize& size, bool rslora);
// Returns whether `name` is the module's full name or a trailing part of it: "attn.c_attn" or "c_attn".
bool is_module_named(std::string_view module, std::string_view name);

// An adapter of a model by its settings, without memory. Throws invalid_argument for what is out of range, a
// target that the model lacks, and one that is a part of a matrix of its files.
Adapter make_adapter(const ModelConfig& config, const ParamTable& table, const AdapterSettings& settings);

// A frozen model with an adapter behind it that is trained. `base` outlives it; its weights stay where they
// are, mapped from the file in the type that it has (dtype nothing).
//
//   AdaptedModel m(loaded.model(), config, settings, objective.parameters(config));
//   init_params(m.model.table, m.weights, seed);            // or m.load(...)
//   TrainStep step(m.model, m.weights, make_adamw(m.model.table, ...), backend,
//                  {..., .graph = {.dtype = DType::bf16, .objective = ..., .adapter = &m.adapter,
//                                  .packs_per_use = true}});
struct AdaptedModel {
  // more: an objective's parameters, which are trained too and stand between the model's and the adapter's.
  // config: the base's, with the dropout that is asked for.
  AdaptedModel(const Model& base, const ModelConfig& config, Adapter adapter,
               std::vector<ParamSpec> more = {}, Device* device = nullptr, DType dtype = DType::f32);
  AdaptedModel(const Model& base, const ModelConfig& config, const AdapterSettings& settings,
               std::vector<ParamSpec> more = {}, Device* device = nullptr)
      : AdaptedModel(base, config, make_adapter(base.config, base.table, settings), std::move(more), device) {
  }
  AdaptedModel(const AdaptedModel&) = delete;  // the model's views are those of its memory

  // Copies the numbers of another adapter with the same products.
  void load(const Adapter& from);
  int first_adapter_id() const { return model.table.count() - adapter.table.count(); }

  Adapter adapter;
  Model model;
  ParamBuffer weights;  // of what is trained
};

}  // namespace gpt
