#include "train/param_groups.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "base/suggest.h"

namespace gpt {
namespace {

// Returns the ids of the parameters whose names match a shell pattern. A dot in the pattern has no special
// meaning.
std::vector<int> matches(const char* key, const std::string& pattern, const ParamTable& table) {
  std::vector<int> ids;
  for (int id = 0; id < table.count(); ++id) {
    if (fnmatch(pattern.c_str(), table[id].name.c_str(), 0) == 0) ids.push_back(id);
  }
  if (ids.empty()) {
    const auto names = transformed(table.specs(), &ParamSpec::name);
    fail_key(key, "no parameter matches \"{}\"{}; run gpt info MODEL --tensors to list all parameter names",
             pattern.substr(0, 64), did_you_mean(pattern, names));
  }
  return ids;
}

std::pair<std::string, double> pattern_and_factor(const std::string& text) {
  const size_t at = text.rfind('=');
  const auto factor = at == std::string::npos ? std::nullopt : parse_number<double>(text.substr(at + 1));
  if (!factor || !(*factor >= 0 && *factor <= 1e6) || at == 0)
    fail_key("lr_scale",
             "expected PATTERN=FACTOR with a factor of 0 to 1e6, such as wte.*=0.1, "
             "found "
             "\"{}\"",
             text.substr(0, 64));
  return {text.substr(0, at), *factor};
}

// Returns the distance of a parameter from the output: 0 for parameters after the layers, 1 for the last
// layer, and the largest distance for the embeddings (ELECTRA's layer-wise learning rate decay, Clark et al.
// 2020).
int64_t depth(const ParamTable& table, int id) {
  int64_t layers = 0;
  for (const ParamSpec& spec : table.specs())
    layers = std::max(layers, spec.layer + 1);
  if (table[id].layer >= 0) return layers - table[id].layer;
  const Role role = table[id].role;
  return role == Role::wte || role == Role::wpe ? layers + 1 : 0;
}

// Returns the learning rate of a parameter group divided by the config's `lr`.
double group_scale(const TrainConfig& c, const ParamTable& table, ParamGroup group) {
  const bool muon = c.optimizer.starts_with("muon");
  const double rate = group == ParamGroup::embedding ? c.embedding_lr
                      : group == ParamGroup::head    ? c.head_lr
                      : group == ParamGroup::vector  ? c.vector_lr
                      : muon                         ? c.muon_lr
                                                     : c.lr;
  if (rate == c.lr) return 1;
  const int wte = table.find(Role::wte);
  const bool by_width = c.optimizer == "muon-nanochat" && wte >= 0 &&
                        (group == ParamGroup::embedding || group == ParamGroup::head);
  const double width = by_width ? std::sqrt(768 / static_cast<double>(table[wte].shape[1])) : 1;
  return rate * width / c.lr;
}

}  // namespace

ParamGroup param_group(const ParamTable& table, int id) {
  const ParamSpec& spec = table[id];
  if (spec.shape.size() < 2) return ParamGroup::vector;
  if (spec.layer >= 0 && spec.shape.size() == 2) return ParamGroup::matrix;
  const bool is_head = spec.role == Role::wte && table.find(Role::head_weight) < 0;
  return (spec.role == Role::wte && !is_head) || spec.role == Role::wpe ? ParamGroup::embedding
                                                                        : ParamGroup::head;
}

void freeze_parameters(const TrainConfig& config, ParamTable& table) {
  for (const std::string& pattern : config.freeze) {
    for (const int id : matches("freeze", pattern, table))
      table.set_trainable(id, false);
  }
  if (!std::ranges::any_of(table.specs(), &ParamSpec::trainable))
    fail_key("freeze", "expected at least one parameter that is not frozen, found none");
}

Model model_to_train(const RunConfig& config) {
  Model model(config.model);
  freeze_parameters(config.train, model.table);
  return model;
}

std::vector<double> lr_scales(const TrainConfig& config, const ParamTable& table) {
  std::vector<double> scales;
  for (int id = 0; id < table.count(); ++id) {
    scales.push_back(group_scale(config, table, param_group(table, id)) *
                     std::pow(config.layer_decay, static_cast<double>(depth(table, id))));
  }
  for (const std::string& text : config.lr_scale) {
    const auto [pattern, factor] = pattern_and_factor(text);
    for (const int id : matches("lr_scale", pattern, table))
      scales[static_cast<size_t>(id)] *= factor;
  }
  return scales;
}

void check_param_groups(const TrainConfig& c) {
  for (const std::string& text : c.lr_scale)
    pattern_and_factor(text);
  for (const double rate : {c.embedding_lr, c.head_lr, c.vector_lr, c.muon_lr}) {
    if (c.lr == 0 && rate > 0)
      fail_key("lr",
               "expected more than 0, because the other learning rates are scaled with its "
               "schedule, found 0");
  }
}

}  // namespace gpt
