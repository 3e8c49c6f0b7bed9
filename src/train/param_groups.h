#pragma once

#include <vector>

#include "model/model.h"
#include "train/train_config.h"

namespace gpt {

// Groups the parameters that have the same optimizer settings. The group `matrix` contains the matrices of
// the layers, `embedding` the lookup tables, and `vector` the norms and biases. The group `head` contains the
// output head, even if it is tied to the embedding, and the parameters of an objective.
enum class ParamGroup : uint8_t { matrix, embedding, head, vector };
ParamGroup param_group(const ParamTable& table, int id);

// Freezes the parameters whose names match the config key "freeze". Throws invalid_argument if a pattern
// matches no name or if no trainable parameter is left. Must be called before gradients are allocated for the
// parameters of the table.
void freeze_parameters(const TrainConfig& config, ParamTable& table);

// Builds the model of a config and freezes the parameters that match the config key "freeze".
Model model_to_train(const RunConfig& config);

// Returns the learning rate factor of each parameter, indexed by parameter id. The factor is the learning
// rate of the parameter's group divided by "lr", times every factor of "lr_scale" whose pattern matches the
// name, times the factor from "layer_decay". Throws invalid_argument if a pattern matches no name.
std::vector<double> lr_scales(const TrainConfig& config, const ParamTable& table);

// Throws invalid_argument naming the config key if an entry of "lr_scale" is invalid, or if "lr" is 0 while a
// parameter group has a learning rate.
void check_param_groups(const TrainConfig& config);

}  // namespace gpt
