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

// Settings of an adapter, with the names and defaults of PEFT.
struct AdapterSettings {
  int64_t rank = 8;
  // The low-rank product is scaled by alpha / rank, or by alpha / sqrt(rank) with `rslora` (Kalajdzievski
  // 2023).
  double alpha = 8;
  bool rslora = false;
  double dropout = 0;  // dropout probability for the input of A in training
  // Target matrices. "all-linear" selects all weight matrices of the layers. Other values are full module
  // names or trailing parts of them. Module names are those of the model's original program ("c_attn",
  // "mlp.c_proj") or of gpt.cpp ("attn.q", "mlp.fc").
  std::vector<std::string> targets = {"all-linear"};
  std::vector<int64_t> layers = {};  // layer indices; empty: all layers
  // Rank and alpha of specific modules, by module name. If several names match a module, the longest name
  // applies.
  std::map<std::string, int64_t> rank_pattern = {};
  std::map<std::string, double> alpha_pattern = {};
};

// A matrix in the model's files, such as "transformer.h.0.attn.c_attn", and the range of model parameters
// that it contains.
struct AdapterModule {
  std::string name;
  int first, last;
};
// Returns the modules that can have an adapter, in the order of the parameter table.
std::vector<AdapterModule> adapter_modules(const ModelConfig& config, const ParamTable& table,
                                           const Naming& naming);
// Returns the tensor names that adapters of a model use, which are the names in transformers.
const Naming& adapter_naming(const ModelConfig& config);

// The rank and alpha of one module, after applying rank_pattern and alpha_pattern.
struct AdapterSize {
  int64_t rank;
  double alpha;
};
AdapterSize adapter_size(const std::string& module, const AdapterSettings& settings);
double adapter_scale(const AdapterSize& size, bool rslora);
// Returns true if `name` is the full name of the module or a trailing part of it, such as "attn.c_attn" or
// "c_attn".
bool is_module_named(std::string_view module, std::string_view name);

// Creates an adapter for a model from settings, without allocating memory. Throws invalid_argument if a
// setting is out of range, if the model has no module with the name of a target, or if a target is only a
// part of a fused matrix.
Adapter make_adapter(const ModelConfig& config, const ParamTable& table, const AdapterSettings& settings);

// A frozen base model with a trainable adapter. The base model must outlive this object. The weights of the
// base model are not copied, so they can stay memory-mapped in the dtype of the file (load the base model
// with dtype std::nullopt).
//
//   AdaptedModel m(loaded.model(), config, settings, objective.parameters(config));
//   init_params(m.model.table, m.weights, seed);
//   TrainStep step(m.model, m.weights, make_adamw(m.model.table, ...), backend,
//                  {..., .graph = {.dtype = DType::bf16, .objective = ..., .adapter = &m.adapter,
//                                  .packs_per_use = true}});
struct AdaptedModel {
  // more: parameters of an objective. These parameters are also trained. Their ids follow the ids of the
  // model parameters and precede the ids of the adapter parameters. config: the config of the base model,
  // with the dropout to use in training.
  AdaptedModel(const Model& base, const ModelConfig& config, Adapter adapter,
               std::vector<ParamSpec> more = {}, Device* device = nullptr, DType dtype = DType::f32);
  AdaptedModel(const Model& base, const ModelConfig& config, const AdapterSettings& settings,
               std::vector<ParamSpec> more = {}, Device* device = nullptr)
      : AdaptedModel(base, config, make_adapter(base.config, base.table, settings), std::move(more), device) {
  }
  AdaptedModel(const AdaptedModel&) = delete;  // views of the model point into this object's memory

  int first_adapter_id() const { return model.table.count() - adapter.table.count(); }

  Adapter adapter;
  Model model;
  ParamBuffer weights;  // trained weights only
};

}  // namespace gpt
